"""Manifests that violate a rule: for each, the name of the rule, the overrides that change the
valid manifest in `manifest`, and the fields that the mistakes name. One module for each module of
rules."""
