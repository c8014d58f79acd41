"""camt.053 bank statements (ISO 20022, any version), streamed: an entry is given out when its element ends.

A document type declaration is refused, and with it every entity; so are deep nesting, endless tokens and encodings that
expat does not know itself. Elements of another namespace than the document's say nothing. Whether a statement foots is
only known at its end: read the file once for its statements, then again for their entries.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, BinaryIO, Final
from xml.parsers import expat  # declarations, the door of every attack on expat, are refused below

from msgspec import Struct, field

from reconciliation.payments.settlement.amounts import currency_code, minor_of_major
from reconciliation.payments.settlement.camt053_entry import Node, Part, batch_size, content_of, names_of, parts_of
from reconciliation.payments.settlement.line import Unclassifiable, UnreadableReport
from schemas import limits

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMESPACE: Final = "urn:iso:std:iso:20022:tech:xsd:camt.053."
_ENCODINGS: Final = frozenset(("utf-8", "utf-16", "us-ascii", "iso-8859-1"))  # others would run Python's codecs
_SEPARATOR: Final = "\n"  # between namespace and name; neither can hold it


class Entry(Struct, kw_only=True):
    """One booked movement on the account; above zero came in."""

    statement: str
    number: int
    amount: int
    currency: str
    names: tuple[str, ...]  # every reference that the bank or the sender gave it, and the words of its remittance text
    booked_on: str | None
    is_reversal: bool
    content: str  # digest of all that it says, and which of the equal ones of its statement it is
    parts: tuple[Part, ...] = ()  # of a batch: the payments that it is of, when the bank tells them
    batch_size: int | None = None  # of a batch of which the bank tells nothing else


class Statement(Struct, kw_only=True):
    """What a statement says of itself, and why it cannot be relied on (empty = it can)."""

    id: str
    account: str
    currency: str | None
    opening: int | None
    closing: int | None
    total: int
    entries: int
    findings: list[str] = field(default_factory=list)

    @property
    def gap(self) -> int:
        """How far the closing balance is from the opening one plus all entries; 0 when that cannot be said."""
        if self.opening is None or self.closing is None:
            return 0
        return self.closing - self.opening - self.total


def read_statements(stream: BinaryIO) -> Iterator[Entry | Statement]:
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
        self._found: list[Entry | Statement] = []
        self._statement: _Footing | None = None
        self._namespace = ""
        self._fed = self._nodes = 0

    def feed(self, block: bytes, *, is_final: bool = False) -> list[Entry | Statement]:
        """What was finished by this block."""
        try:
            self._parser.Parse(block, is_final)
        except expat.ExpatError as error:
            raise UnreadableReport(f"the XML breaks in line {error.lineno}: {expat.ErrorString(error.code)}") from error
        self._fed += len(block)
        unfinished = self._fed - self._parser.CurrentByteIndex
        if unfinished > limits.SETTLEMENT_BLOCK_BYTES + limits.SETTLEMENT_TOKEN_BYTES_MAX:
            raise UnreadableReport("the XML has a token without an end")
        if is_final and self._statement is not None:
            raise UnreadableReport("the file ends inside a statement: truncated")
        found, self._found = self._found, []
        return found

    def _declared(self, _: str, encoding: str | None, __: int) -> None:
        if encoding is not None and encoding.lower() not in _ENCODINGS:
            raise UnreadableReport(f"the XML is in an encoding that is not read: {encoding[:20]!r}")

    def _refuse_declaration(self, *_: Any) -> None:
        raise UnreadableReport("the XML declares a document type or entities: no bank does")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        namespace, _, local = name.rpartition(_SEPARATOR)
        if not self._stack and not (local == "Document" and namespace.startswith(_NAMESPACE)):
            raise UnreadableReport(f"the root element is {local[:40]!r}, not a camt.053 Document")
        if not self._stack:
            self._namespace = namespace
        if namespace != self._namespace:
            local = name  # with its namespace it is called as nothing that is looked for
        self._nodes += 1
        if len(self._stack) >= limits.SETTLEMENT_XML_DEPTH_MAX or self._nodes > limits.SETTLEMENT_XML_NODES_MAX:
            raise UnreadableReport("the XML is nested too deep, or one entry has too many parts")
        self._stack.append(Node(local, attributes.get("Ccy")))
        if local == "Stmt":
            self._statement, self._nodes = _Footing(), 0

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


class _Footing:
    """One statement under way: sums and currencies, no entries."""

    def __init__(self) -> None:
        self._statement = Statement(
            id="", account="", currency=None, opening=None, closing=None, total=0, entries=0, findings=[]
        )
        self._currencies: set[str] = set()
        self._contents: Counter[str] = Counter()

    def take(self, node: Node) -> Entry | None:
        """A part of the statement; an entry when it is a booked one."""
        statement = self._statement
        try:
            match node.name:
                case "Id":
                    statement.id = _name_of(node.text)
                case "Acct":
                    statement.account = _name_of(node.word("Id/IBAN", "Id/Othr/Id") or "")
                case "Bal":
                    self._balance(node)
                case "Ntry":
                    statement.entries += 1
                    return self._entry(node, statement.entries)
        except Unclassifiable as problem:
            where = f"entry {statement.entries}" if node.name == "Ntry" else node.name
            self._find(f"{where}: {problem}")
        return None

    def ended(self) -> Statement:
        """The statement with everything that is wrong with it."""
        statement = self._statement
        if not statement.id or not statement.account:
            self._find("it has no id or no account")
        if len(self._currencies) > 1:
            self._find(f"several currencies: {', '.join(sorted(self._currencies))}")
        elif statement.opening is None or statement.closing is None:
            self._find("it has no opening or no closing balance")
        elif statement.gap:
            self._find("opening balance and entries do not make the closing balance")
        return statement

    def _find(self, text: str) -> None:
        if len(self._statement.findings) < limits.SETTLEMENT_FINDINGS_MAX:
            self._statement.findings.append(text)

    def _balance(self, node: Node) -> None:
        code = node.word("Tp/CdOrPrtry/Cd")
        amount = self._signed(node)
        if code in ("OPBD", "PRCD"):
            self._statement.opening = amount
        elif code == "CLBD":
            self._statement.closing = amount

    def _entry(self, node: Node, number: int) -> Entry | None:
        if node.word("Sts/Cd", "Sts") not in (None, "BOOK"):
            return None  # pending or information only: it moved nothing yet
        amount = self._signed(node)
        self._statement.total += amount
        self._details(node, number)
        money = node.at("Amt")
        booked = node.at("BookgDt")
        content = content_of(node, self._statement.id)
        self._contents[content] += 1
        return Entry(
            statement=self._statement.id,
            number=number,
            amount=amount,
            currency=currency_code((money.ccy if money else None) or ""),
            names=names_of(node),
            booked_on=booked.word("Dt", "DtTm") if booked else None,
            is_reversal=node.word("RvslInd") in ("true", "1"),
            content=f"{content}~{self._contents[content]}",
            parts=parts_of(node, is_debit=amount < 0),
            batch_size=batch_size(node),
        )

    def _details(self, node: Node, number: int) -> None:
        """Details that all tell their amount must add up to their entry."""
        own = node.at("Amt")
        parts = list(node.all("NtryDtls/TxDtls"))
        amounts = [part.at("Amt") or part.at("AmtDtls/TxAmt/Amt") for part in parts]
        told = [amount for amount in amounts if amount is not None]
        if own is None or not told or len(told) < len(parts):
            return
        codes = {currency_code(amount.ccy or "") for amount in told}
        if codes != {currency_code(own.ccy or "")}:
            self._find(f"entry {number}: its details are in {', '.join(sorted(codes))}")
        elif sum(minor_of_major(a.text, a.ccy or "") for a in told) != minor_of_major(own.text, own.ccy or ""):
            self._find(f"entry {number}: its details do not make its amount")

    def _signed(self, node: Node) -> int:
        money = node.at("Amt")
        if money is None:
            raise Unclassifiable("has no amount")
        code = currency_code(money.ccy or "")
        self._currencies.add(code)
        self._statement.currency = code
        amount = minor_of_major(money.text, code)
        match node.word("CdtDbtInd"):
            case "CRDT":
                return amount
            case "DBIT":
                return -amount
            case other:
                raise Unclassifiable(f"is neither credit nor debit: {str(other)[:10]!r}")


def _name_of(text: str) -> str:
    name = text.strip()
    if len(name) > limits.SETTLEMENT_NAME_LENGTH_MAX or not name.isprintable() or any(c.isspace() for c in name):
        raise Unclassifiable("has a name that is too long or holds blanks")
    return name
