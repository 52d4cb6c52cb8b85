"""Task sets that violate a rule of the conformance checker: each with the name of the rule, and
words of the finding. One module for each module of rules."""
