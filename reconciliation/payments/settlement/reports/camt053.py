"""camt.053 bank statements (ISO 20022, any version), streamed: an entry is given out when its element ends.

A document type declaration is refused, and with it every entity; so are deep nesting, endless tokens and encodings that
expat does not know itself. Elements of another namespace than the document's say nothing. Whether a statement foots is
only known at its end: read the file once for its statements, then again for their entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO, Final
from xml.parsers import expat  # declarations, the door of every attack on expat, are refused below

from reconciliation.payments.settlement.line import UnreadableReport
from reconciliation.payments.settlement.reports.camt053_entry import Node
from reconciliation.payments.settlement.reports.camt053_statement import Entry, Footing, Statement, UnreadEntry
from schemas.payments import limits

if TYPE_CHECKING:
    from collections.abc import Iterator

_ISO_20022: Final = "urn:iso:std:iso:20022:tech:xsd:"
_NAMESPACE: Final = _ISO_20022 + "camt.053."
#: what banks send beside statements, so that a person hears what it is
_OTHER_MESSAGES: Final = {
    "camt.052": "an account report of the running day",
    "camt.054": "a notification of single debits and credits",
}
_ENCODINGS: Final = frozenset(("utf-8", "utf-16", "us-ascii", "iso-8859-1"))  # others would run Python's codecs
_SEPARATOR: Final = "\n"  # between namespace and name; neither can hold it


def read_statements(stream: BinaryIO) -> Iterator[Entry | UnreadEntry | Statement]:
    """Entries and, after the last of each, its statement. Raises UnreadableReport."""
    reader = _Reader()
    while block := stream.read(limits.SETTLEMENT_BLOCK_BYTES):
        yield from reader.feed(block)
    yield from reader.feed(b"", is_final=True)


class _Reader:
    """Expat's callbacks: a stack of small trees, of which only statements' parts are kept, until they end."""

    def __init__(self) -> None:
        self._parser = expat.ParserCreate(namespace_separator=_SEPARATOR)
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.XmlDeclHandler = self._declared
        self._parser.StartDoctypeDeclHandler = self._refuse_declaration
        self._parser.EntityDeclHandler = self._refuse_declaration
        self._stack: list[Node] = []
        self._found: list[Entry | UnreadEntry | Statement] = []
        self._statement: Footing | None = None
        self._namespace = ""
        self._fed = self._nodes = 0
        self._has_statement = False

    def feed(self, block: bytes, *, is_final: bool = False) -> list[Entry | UnreadEntry | Statement]:
        """What was finished by this block."""
        try:
            self._parser.Parse(block, is_final)
        except expat.ExpatError as error:
            raise UnreadableReport(f"the XML breaks in line {error.lineno}: {expat.ErrorString(error.code)}") from error
        self._fed += len(block)
        unfinished = self._fed - self._parser.CurrentByteIndex
        if unfinished > limits.SETTLEMENT_BLOCK_BYTES + limits.SETTLEMENT_TOKEN_BYTES_MAX:
            raise UnreadableReport("the XML has a token without an end")
        if is_final and not self._has_statement:
            raise UnreadableReport("the file holds no statement (Stmt)")
        found, self._found = self._found, []
        return found

    def _declared(self, _: str, encoding: str | None, __: int) -> None:
        if encoding is not None and encoding.lower() not in _ENCODINGS:
            raise UnreadableReport(f"the XML is in an encoding that is not read: {encoding[:20]!r}")

    def _refuse_declaration(self, *_: Any) -> None:
        raise UnreadableReport("the XML declares a document type or entities: no bank does")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        namespace, _, local = name.rpartition(_SEPARATOR)
        if not self._stack:
            _require_statements(namespace, local)
        if not self._stack:
            self._namespace = namespace
        if namespace != self._namespace:
            local = name  # with its namespace it is called as nothing that is looked for
        self._nodes += 1
        if len(self._stack) >= limits.SETTLEMENT_XML_DEPTH_MAX or self._nodes > limits.SETTLEMENT_XML_NODES_MAX:
            raise UnreadableReport("the XML is nested too deep, or one entry has too many parts")
        self._stack.append(Node(local, attributes.get("Ccy")))
        if local == "Stmt":
            self._statement, self._nodes, self._has_statement = Footing(), 0, True

    def _characters(self, text: str) -> None:
        node = self._stack[-1]
        if len(node.text) + len(text) > limits.SETTLEMENT_TOKEN_BYTES_MAX:
            raise UnreadableReport(f"the text of {node.name[:40]!r} has no end")
        node.text += text

    def _end(self, _: str) -> None:
        node = self._stack.pop()
        statement = self._statement
        if statement is None:
            return
        if node.name == "Stmt":
            self._found.append(statement.ended())
            self._statement = None
        elif self._stack[-1].name != "Stmt":
            self._stack[-1].children.append(node)
        else:
            self._nodes = 0
            if (entry := statement.take(node)) is not None:
                self._found.append(entry)


def _require_statements(namespace: str, root: str) -> None:
    """Raises UnreadableReport unless the document holds statements, and says what it is where that is known."""
    if root == "Document" and namespace.startswith(_NAMESPACE):
        return
    message = ".".join(namespace.removeprefix(_ISO_20022).split(".")[:2])
    if root == "Document" and namespace.startswith(_ISO_20022):
        told = f", {_OTHER_MESSAGES[message]}" if message in _OTHER_MESSAGES else ""
        raise UnreadableReport(f"the file is a {message[:20]}{told}; a bank statement is a camt.053")
    raise UnreadableReport(f"the root element is {root[:40]!r}, not a camt.053 Document")
