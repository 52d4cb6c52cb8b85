"""Names of environment variables in pods: each once, and none that the pods have already."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from agentrl_components.spec.fields.pods import SecretVariable, Variable
from agentrl_components.spec.rules.rule import Mistake


def free_names(variables: str, reserved: Collection[str], secrets: str = "") -> str:
    """In CEL: names in the list `variables` are unique, not in `reserved` and not in the list
    `secrets`."""
    in_secrets = f" && !{secrets}.exists(secret, secret.name == v.name)" if secrets else ""
    return (
        f"{variables}.all(v, !(v.name in {sorted(reserved)})"
        f" && {variables}.exists_one(same, same.name == v.name){in_secrets})"
    )


def name_mistakes(
    where: str,
    variables: Sequence[Variable | SecretVariable],
    reserved: Collection[str],
    why: str,
    secrets: Sequence[SecretVariable] = (),
) -> Iterator[Mistake]:
    """The mistakes that `free_names` forbids, in the list at the path `where`. `why` the names in
    `reserved` are not free."""
    names = [variable.name for variable in variables]
    in_secrets = {variable.name for variable in secrets}
    for position, name in enumerate(names):
        if name in reserved:
            reason = why
        elif name in names[:position]:
            reason = "is a duplicate"
        elif name in in_secrets:
            reason = "is in secretEnv too"
        else:
            continue
        yield Mistake(
            field=f"{where}[{position}].name",
            reason=f"{name} {reason}",
            fix="choose another name, or leave it out",
        )
