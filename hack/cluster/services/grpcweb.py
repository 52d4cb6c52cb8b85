"""Serve grpc-web in front of a gRPC server: the Kubeflow UI reads ML Metadata without Envoy.

Usage: grpcweb.py LISTEN_HOST:PORT GRPC_HOST:PORT      (needs grpcio)
"""

import base64
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc


def frame(kind: int, payload: bytes) -> bytes:
    return bytes([kind]) + len(payload).to_bytes(4, "big") + payload


def handler(channel: grpc.Channel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            text = "text" in self.headers.get("content-type", "")
            if text:
                body = base64.b64decode(body)
            message = body[5 : 5 + int.from_bytes(body[1:5], "big")]
            try:
                answer, status, detail = frame(0, channel.unary_unary(self.path)(message)), 0, ""
            except grpc.RpcError as error:
                answer, status, detail = b"", error.code().value[0], error.details()
            answer += frame(0x80, f"grpc-status:{status}\r\ngrpc-message:{detail}\r\n".encode())
            if text:
                answer = base64.b64encode(answer)
            self.send_response(200)
            self.send_header(
                "content-type",
                "application/grpc-web-text" if text else "application/grpc-web+proto",
            )
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args: object) -> None: ...

    return Handler


if __name__ == "__main__":
    host, port = sys.argv[1].split(":")
    ThreadingHTTPServer(
        (host, int(port)), handler(grpc.insecure_channel(sys.argv[2]))
    ).serve_forever()
