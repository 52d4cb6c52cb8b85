"""Wordle, by the rules of LMRL-Gym (arXiv 2311.18232) as AgentGym serves it.

A word of five letters is guessed in six attempts. Letters are separated by spaces, as they are for
a tokenizer that would merge them. The feedback has a letter for each of the guess: `g` in its
place, `y` elsewhere in the word, `b` not in it. Only words of the list are guesses.

    > s t o n e
    b y g b b
"""

from agentrl_envs.environments.wordle.environment import WordleOptions, WordleSession, WordleTasks

__all__ = ["WordleOptions", "WordleSession", "WordleTasks"]
