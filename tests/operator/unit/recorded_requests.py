"""The Kubernetes API as a client of one of its parts sees it, for tests of such clients."""


class RecordedRequests:
    """`Request` that answers by method and path without its query, and records every request."""

    def __init__(self, answers=None):
        self.answers = answers or {}
        self.requests = []

    async def __call__(self, method, path, body=None, **_):
        self.requests.append((method, path, body))
        return self.answers.get((method, path.partition("?")[0]), {})
