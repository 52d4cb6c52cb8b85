"""Serve ML Metadata over gRPC for KFP, with the C++ store of the wheel `ml-metadata`.

Usage: mlmd.py SQLITE_FILE HOST:PORT

Runs in its own virtual environment, because ml-metadata needs protobuf before 5.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

import grpc
from ml_metadata.metadata_store.pywrap.metadata_store_extension import metadata_store as cpp
from ml_metadata.proto import metadata_store_pb2, metadata_store_service_pb2

CODES = {code.value[0]: code for code in grpc.StatusCode}
SERVICE = metadata_store_service_pb2.DESCRIPTOR.services_by_name["MetadataStoreService"]


def open_store(path: str) -> Any:
    config = metadata_store_pb2.ConnectionConfig()
    config.sqlite.filename_uri = path
    config.sqlite.connection_mode = config.sqlite.READWRITE_OPENCREATE
    return cpp.CreateMetadataStore(
        config.SerializeToString(), metadata_store_pb2.MigrationOptions().SerializeToString()
    )


def handler(
    store: Any, lock: threading.Lock, function: Callable[[Any, bytes], tuple[bytes, Any, int]]
) -> grpc.RpcMethodHandler:
    def call(request: bytes, context: grpc.ServicerContext) -> bytes:
        with lock:
            response, message, code = function(store, request)
        if code:
            context.abort(
                CODES.get(code, grpc.StatusCode.UNKNOWN),
                message.decode() if isinstance(message, bytes) else message,
            )
        return response

    return grpc.unary_unary_rpc_method_handler(call)


def main(path: str, address: str) -> None:
    store, lock = open_store(path), threading.Lock()
    # the wheel does not export three lineage calls, which KFP does not use
    methods = {
        m.name: handler(store, lock, getattr(cpp, m.name))
        for m in SERVICE.methods
        if hasattr(cpp, m.name)
    }
    server = grpc.server(futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE.full_name, methods),)
    )
    server.add_insecure_port(address)
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main(*sys.argv[1:])
