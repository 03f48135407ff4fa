"""Telling that two texts state the same value, however they are dressed.

A rejected or erased value is refused by these keys, so they hold two promises: a value in another
case, spacing or Unicode form has the same keys, and two different values share none.
"""

from __future__ import annotations

# From this length on (in characters, normalised) a text stands for itself under whatever title; a shorter one,
# such as "yes" or "version 14", says something only together with its title.
STANDS_ALONE = 40
# Unicode's Default_Ignorable_Code_Point: zero-width spaces and joiners, soft hyphens, directions, variation selectors,
# fillers and tags. Not all format characters (Cf): some of those, such as the Arabic number sign, are seen.
_UNSEEN = (
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def value_keys(title: str, summary: str, body: str) -> tuple[str, ...]:
    """Return the keys of the value that a text states: one, or two, of 64 hexadecimal digits each.

    What is stated is the body, or the summary where the body is blank. The first key is of the title
    with it; the second, where it has ``STANDS_ALONE`` characters or more, of it alone.
    """
    content = normalised(body) or normalised(summary)
    keys = [_key("titled", normalised(title), content)]
    if len(content) >= STANDS_ALONE:
        keys.append(_key("alone", content))
    return tuple(keys)


def normalised(text: str) -> str:
    """Return the text in NFKC, caseless, with single spaces and without characters that nobody sees.

    Applying it again changes nothing.
    """
    if not text.isascii():
        # Imported on use: a search normalises nothing.
        import re  # noqa: PLC0415
        import unicodedata  # noqa: PLC0415

        text = re.sub(_UNSEEN, "", text)
        # Unicode's own caseless match of compatible texts (definition D146): taken apart first, because folding moves
        # the one mark that folds to a letter; the second round settles what the first opened.
        text = unicodedata.normalize("NFD", text).casefold()
        text = unicodedata.normalize("NFKC", text).casefold()
        text = re.sub(_UNSEEN, "", unicodedata.normalize("NFKC", text))
    return " ".join(text.lower().split())


def _key(kind: str, *parts: str) -> str:
    import hashlib  # noqa: PLC0415

    whole = hashlib.sha256()
    for part in (kind, *parts):
        data = part.encode("utf-8", "surrogatepass")
        whole.update(len(data).to_bytes(8, "big"))
        whole.update(data)
    return whole.hexdigest()
