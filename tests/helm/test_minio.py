"""The MinIO for trials."""

from pathlib import Path

from rendered import Manifest, Render, kinds, settings, the


def keys_in(objects: list[Manifest], deployment: str) -> dict[str, tuple[str, str]]:
    """The Secret and the key of each environment variable of a Deployment that has them."""
    (container,) = the(objects, "Deployment", deployment)["spec"]["template"]["spec"]["containers"]
    found = ((one["name"], one.get("valueFrom", {})) for one in container["env"])
    return {
        name: (source["secretKeyRef"]["name"], source["secretKeyRef"]["key"])
        for name, source in found
        if "secretKeyRef" in source
    }


def test_minio_and_its_clients_use_the_keys_of_a_secret_that_exists(
    render: Render, tmp_path: Path
) -> None:
    storage = {"existingSecret": "keys", "accessKey": "user", "secretKey": "password"}
    objects = render({"minio": {"enabled": True}, "storage": storage})
    assert "Secret" not in kinds(objects)
    assert keys_in(objects, "agentrl") == {
        "AWS_ACCESS_KEY_ID": ("keys", "user"),
        "AWS_SECRET_ACCESS_KEY": ("keys", "password"),
    }
    assert keys_in(objects, "agentrl-minio") == {
        "MINIO_ROOT_USER": ("keys", "user"),
        "MINIO_ROOT_PASSWORD": ("keys", "password"),
    }
    told = settings(objects, tmp_path).storage
    assert told.endpoint == "http://agentrl-minio.kubeflow.svc:9000"
    assert told.secret is not None
    assert (told.secret.name, told.secret.access_key) == ("keys", "user")
    assert told.secret.secret_key == "password"


def test_the_keys_are_those_of_the_charts_own_secret_where_none_is_named(
    render: Render,
) -> None:
    objects = render({"minio": {"enabled": True}})
    assert "Secret" in kinds(objects)
    assert keys_in(objects, "agentrl-minio") == {
        "MINIO_ROOT_USER": ("agentrl-minio", "accesskey"),
        "MINIO_ROOT_PASSWORD": ("agentrl-minio", "secretkey"),
    }
