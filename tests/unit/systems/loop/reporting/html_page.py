"""A written page, taken apart for tests."""

import html.parser


class Page(html.parser.HTMLParser):
    """Collects elements, headings and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text, self.heading, self._open = "", "", ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._open = tag

    def handle_endtag(self, tag):
        if tag == self._open:
            self._open = ""

    def handle_data(self, data):
        self.text += data
        if self._open == "h1":
            self.heading += data

    def all(self, tag: str) -> list[dict[str, str]]:
        """Attributes of every element of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]
