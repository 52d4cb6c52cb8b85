"""Generate the Go code of KFP's two protobuf modules from the descriptors in the published wheels.

Usage: kfp_protos.py PROTOC_GEN_GO OUT_DIR
"""

import importlib.util
import pathlib
import subprocess
import sys
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.compiler import plugin_pb2
from kfp.pipeline_spec import pipeline_spec_pb2 as spec


def load_module(path: pathlib.Path) -> Any:
    module_spec = importlib.util.spec_from_file_location(path.stem, path)
    assert module_spec is not None
    assert module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(module)
    return module


def collect(file: Any, found: dict[str, descriptor_pb2.FileDescriptorProto]) -> None:
    """Add the descriptor of a file and of its dependencies to `found`, dependencies first."""
    for dependency in file.dependencies:
        collect(dependency, found)
    if file.name not in found:
        found[file.name] = descriptor_pb2.FileDescriptorProto()
        file.CopyToProto(found[file.name])


plugin, out = sys.argv[1], pathlib.Path(sys.argv[2])
folder = pathlib.Path(spec.__file__).parent
sys.path.insert(0, str(folder))
# loaded by path, because importing kfp.kubernetes needs the whole SDK
platform = load_module(folder.parent / "kubernetes" / "kubernetes_executor_config_pb2.py")
found: dict[str, descriptor_pb2.FileDescriptorProto] = {}
for module in (spec, platform):
    collect(module.DESCRIPTOR, found)
request = plugin_pb2.CodeGeneratorRequest(
    file_to_generate=[spec.DESCRIPTOR.name, platform.DESCRIPTOR.name],
    proto_file=list(found.values()),
)
done = subprocess.run([plugin], input=request.SerializeToString(), capture_output=True, check=True)
response = plugin_pb2.CodeGeneratorResponse.FromString(done.stdout)
if response.error:
    sys.exit(response.error)
for file in response.file:
    path = out / file.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(file.content)
