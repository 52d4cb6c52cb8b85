"""The rules of `conformance`: each plays, and says what it found wrong, or None.

`trial` is how a rule plays; `tasks`, `sessions` and `wording` are the rules by what they are about.
`conformance.RULES` lists them all, each with its sentence.
"""
