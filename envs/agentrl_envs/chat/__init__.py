"""Models that are asked in chat messages: their endpoints and their thoughts."""
