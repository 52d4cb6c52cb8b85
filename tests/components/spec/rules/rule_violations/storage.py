"""Violations of the rules about the object store and MLflow."""

from rule_violations.manifest import Violation

VIOLATIONS: list[Violation] = [
    ("s3_needs_endpoint_or_region", ("storage.url=s3://runs/a",), ["spec.storage.endpoint"]),
    (
        "endpoint_needs_s3",
        ("storage.endpoint=minio:9000", "storage.region=eu-west-1"),
        ["spec.storage.endpoint", "spec.storage.region"],
    ),
    (
        "buckets_are_valid",
        (
            "storage={url: 's3://1.2.3.4/a', endpoint: 'minio:9000'}",
            "model.source=s3://a.-b/c",
            "warmStart={algorithm: sft, trajectories: 's3://a-.b/c'}",
        ),
        ["spec.storage.url", "spec.model.source", "spec.warmStart.trajectories"],
    ),
    (
        "keys_have_no_relative_parts",
        (
            "storage={url: 's3://runs/a/..', endpoint: 'minio:9000'}",
            "model.source=s3://runs/../a",
            "warmStart={algorithm: sft, trajectories: 's3://runs/./c'}",
        ),
        ["spec.storage.url", "spec.model.source", "spec.warmStart.trajectories"],
    ),
    ("tracking_uri_is_valid", ("tracking.uri='http://mlflow:90000'",), ["spec.tracking.uri"]),
    ("tracking_uri_has_a_scheme", ("tracking.uri='localhost:5000'",), ["spec.tracking.uri"]),
    (
        "services_have_no_credentials",
        (
            "storage={url: 's3://runs/a', endpoint: 'http://me:pw@minio:9000'}",
            "tracking.uri='http://me:pw@mlflow:5000'",
        ),
        ["spec.storage.endpoint", "spec.tracking.uri"],
    ),
    (
        "access_key_is_of_a_store",
        (
            "storage={url: 's3://runs/a', endpoint: 'minio:9000', accessKeyEnv: "
            "AWS_SECRET_ACCESS_KEY}",
        ),
        ["spec.storage.accessKeyEnv"],
    ),
]
