"""The common API of the KFP backends 2.14.3 to 2.17.0: paths, fields and states, and fields of
pipelines. This program writes it to kfp_contract.json, from the packages of each version on PyPI:

    python tests/operator/unit/kfp_contract.py

It keeps only names that all versions have with the same type.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

VERSIONS = ("2.14.3", "2.15.0", "2.16.0", "2.17.0")
PACKAGES = ("kfp-server-api", "kfp-pipeline-spec", "kfp-kubernetes")
FIXTURE = Path(__file__).with_suffix(".json")
MODELS = (
    "v2beta1_run",
    "v2beta1_runtime_config",
    "v2beta1_experiment",
    "v2beta1_list_runs_response",
)
DESCRIPTORS = ("pipeline_spec_pb2.py", "kubernetes_executor_config_pb2.py")
ROUTE = re.compile(r"'(/apis/v2beta1/[^']*)', '([A-Z]+)'")
QUERY = re.compile(r"query_params\.append\(\('(\w+)'")


def files(folder: Path, version: str) -> dict[str, str]:
    """The source files of one version, by name."""
    wanted = [f"{package}=={version}" for package in PACKAGES]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
    subprocess.run([*pip, "--no-build-isolation", *wanted], check=True, timeout=300)
    found = {}
    for path in folder.glob("*.whl"):
        with zipfile.ZipFile(path) as wheel:
            found |= {Path(n).name: wheel.read(n).decode() for n in wheel.namelist() if ".py" in n}
    for path in folder.glob("*.tar.gz"):
        with tarfile.open(path) as sources:
            for member in sources.getmembers():
                file = sources.extractfile(member) if member.name.endswith(".py") else None
                if file is not None:
                    found[Path(member.name).name] = file.read().decode()
    return found


def messages(kind: DescriptorProto, name: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The messages in a descriptor, with their fields by JSON name. The type of a field is `T`,
    `[T]` or `{T}`, where T is the name of a message, or empty for other types."""
    maps = {}
    for nested in kind.nested_type:
        if nested.options.map_entry:
            maps[f"{name}.{nested.name}"] = f"{{{named(nested.field[1])}}}"
        else:
            yield from messages(nested, f"{name}.{nested.name}")
    fields = {}
    for field in kind.field:
        of = named(field)
        listed = f"[{of}]" if field.label == field.LABEL_REPEATED else of
        first, *rest = field.name.split("_")
        fields[first + "".join(word.title() for word in rest)] = maps.get(of, listed)
    yield name, fields


def named(field: FieldDescriptorProto) -> str:
    """The name of the message type of a field; empty for other types."""
    of = field.type_name.lstrip(".") if field.type == field.TYPE_MESSAGE else ""
    return "" if of.startswith("google.protobuf.") else of


def contract(sources: Mapping[str, str]) -> dict[str, Any]:
    """The contract of one version."""
    api = "".join(sources[f"{name}_service_api.py"] for name in ("run", "experiment"))
    models = {}
    for name in MODELS:
        text = sources[f"{name}.py"].partition("attribute_map = ")[2].partition("}")[0] + "}"
        models[name] = dict.fromkeys(ast.literal_eval(text).values(), "")
    states = re.findall(r'^    ([A-Z_]+) = "\1"', sources["v2beta1_runtime_state.py"], re.MULTILINE)
    for name in DESCRIPTORS:
        file = FileDescriptorProto.FromString(serialized(sources[name]))
        for kind in file.message_type:
            models |= dict(messages(kind, f"{file.package}.{kind.name}"))
    return {
        "routes": dict(routes(api)),
        "states": dict.fromkeys(states, ""),
        "models": models,
    }


def routes(api: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Every route with the names of its query parameters, which precede it in the source."""
    end = 0
    for found in ROUTE.finditer(api):
        path, verb = found.groups()
        yield f"{verb} {path}", dict.fromkeys(QUERY.findall(api, end, found.start()), "")
        end = found.end()


def serialized(module: str) -> bytes:
    """The descriptor in a module that protoc wrote."""
    for node in ast.walk(ast.parse(module)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "AddSerializedFile":
            found: bytes = ast.literal_eval(node.args[0])
            return found
    raise ValueError("no descriptor in this module")


def shared(one: Any, other: Any) -> Any:
    """The common part of two contracts."""
    if not isinstance(one, dict):
        return one
    return {
        key: shared(one[key], other[key])
        for key in sorted(one)
        if key in other and (isinstance(one[key], dict) or one[key] == other[key])
    }


def main() -> None:
    found = []
    for version in VERSIONS:
        with TemporaryDirectory() as folder:
            found.append(contract(files(Path(folder), version)))
    common = reduce(shared, found)
    models = ",\n".join(f" {json.dumps({k: v})[1:-1]}" for k, v in common.pop("models").items())
    rest = json.dumps({"versions": VERSIONS} | common)[:-1]
    FIXTURE.write_text(f'{rest},\n"models": {{\n{models}\n}}}}\n')


if __name__ == "__main__":
    main()
