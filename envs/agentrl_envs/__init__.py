"""The world: environments, their server and their client. Speaks text and HTTP, knows no
trainer."""
