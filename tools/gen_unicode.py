#!/usr/bin/env python3
"""Writes src/base/unicode_tab.c: the character tables behind src/base/unicode.h.

usage: gen_unicode.py > src/base/unicode_tab.c
Needs the Python packages unicodedata2==17.0.0 and unicodedataplus==16.0.0.post1 and node (for full case mappings).
Categories are those of Unicode 16; later characters count as unassigned. A character's age says in which of the older
data sets (8.0: punctuation and controls of BERT; 9.0: normalization and scripts) it exists.
"""
import json
import subprocess
import sys
import unicodedata as own
import unicodedata2 as u17
import unicodedataplus as u16

assert u17.unidata_version == "17.0.0" and u16.unidata_version == "16.0.0"
MAX = 0x110000
BLOCK = 128
CATS = "Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co".split()
NORM_AGE = (9, 0)
OLD_AGE = (8, 0)


def age(cp):
    text = u16.age(chr(cp))
    return tuple(int(x) for x in text.split(".")) if text and text[0].isdigit() else (99, 0)


AGES = [age(cp) for cp in range(MAX)]
out = []


def emit(ctype, name, values, per_line=24):
    out.append("const %s %s[%d] = {" % (ctype, name, len(values)))
    for i in range(0, len(values), per_line):
        out.append("    " + ", ".join(str(v) for v in values[i:i + per_line]) + ",")
    out.append("};\n")


def two_stage(name, values):
    blocks, index, seen = [], [], {}
    for i in range(0, MAX, BLOCK):
        b = tuple(values[i:i + BLOCK])
        if b not in seen:
            seen[b] = len(seen)
            blocks.extend(b)
        index.append(seen[b])
    kind = "uint8_t" if len(seen) < 256 else "uint16_t"
    emit("uint16_t", "unicode_%s_index" % name, index)
    emit("uint8_t", "unicode_%s_data" % name, blocks)
    assert kind


def ranges(name, wanted):
    found, cp = [], 0
    while cp < MAX:
        if wanted(cp):
            start = cp
            while cp + 1 < MAX and wanted(cp + 1):
                cp += 1
            found.append((start, cp))
        cp += 1
    out.append("const UnicodeRange unicode_%s_ranges[%d] = {" % (name, len(found)))
    for i in range(0, len(found), 6):
        out.append("    " + " ".join("{0x%X, 0x%X}," % r for r in found[i:i + 6]))
    out.append("};\nconst size_t unicode_%s_n_ranges = %d;\n" % (name, len(found)))


def decomposition(cp):
    """(compat, code points) of one step, as the older data has it; None if there is none."""
    if AGES[cp] > NORM_AGE or 0xAC00 <= cp < 0xD7A4:
        return None
    text = u16.decomposition(chr(cp))
    if not text:
        return None
    parts = text.split()
    compat = parts[0].startswith("<")
    return compat, [int(p, 16) for p in (parts[1:] if compat else parts)]


def full(cp, compat):
    d = decomposition(cp)
    if d is None or (d[0] and not compat):
        return [cp]
    return [x for part in d[1] for x in full(part, compat)]


def ccc(cp):
    return u16.combining(chr(cp)) if AGES[cp] <= NORM_AGE else 0


def order(cps):
    cps = list(cps)
    for i in range(1, len(cps)):
        j = i
        while j and ccc(cps[j]) and ccc(cps[j - 1]) > ccc(cps[j]):
            cps[j], cps[j - 1] = cps[j - 1], cps[j]
            j -= 1
    return cps


def case_tables():
    script = """
const r = {lower: {}, upper: {}};
for (let c = 0; c < 0x110000; c++) {
  if (c >= 0xD800 && c < 0xE000) continue;
  const s = String.fromCodePoint(c), l = s.toLowerCase(), u = s.toUpperCase();
  if (l !== s) r.lower[c] = [...l].map(x => x.codePointAt(0));
  if (u !== s) r.upper[c] = [...u].map(x => x.codePointAt(0));
}
console.log(JSON.stringify([process.versions.unicode, r]));"""
    version, maps = json.loads(subprocess.check_output(["node", "-e", script]))
    assert version == "17.0", version
    lower = {int(k): v for k, v in maps["lower"].items()}
    upper = {int(k): v for k, v in maps["upper"].items()}
    title = {}
    for cp in range(MAX):
        if 0xD800 <= cp < 0xE000:
            continue
        t = [ord(c) for c in chr(cp).title()]
        if own.category(chr(cp)) == "Cn":
            t = upper.get(cp, [cp])
        if t != upper.get(cp, [cp]):
            title[cp] = t
    return lower, upper, title


def emit_case(name, table):
    rows = ["{0x%X, %d, {%s}}," % (cp, len(v), ", ".join("0x%X" % x for x in v)) for cp, v in sorted(table.items())]
    out.append("const UnicodeCase unicode_%s_cases[%d] = {" % (name, len(rows)))
    for i in range(0, len(rows), 4):
        out.append("    " + " ".join(rows[i:i + 4]))
    out.append("};\nconst size_t unicode_%s_n_cases = %d;\n" % (name, len(rows)))


def main():
    out.append("/* Written by tools/gen_unicode.py; do not edit. */")
    out.append('#include "base/unicode_tab.h"\n')

    pairs = {}
    decomps = {}
    for cp in range(MAX):
        d = decomposition(cp)
        if d is None:
            continue
        decomps[cp] = (order(full(cp, False)), order(full(cp, True)))
        if not d[0] and len(d[1]) == 2 and u16.normalize("NFC", chr(cp)) == chr(cp):
            pairs[tuple(d[1])] = cp
    seconds = {b for _, b in pairs}

    flags = []
    for cp in range(MAX):
        v = CATS.index(u16.category(chr(cp)))
        if AGES[cp] <= OLD_AGE:
            v |= 0x20
        if ccc(cp) or cp in decomps or cp in seconds or 0xAC00 <= cp < 0xD7A4 or 0x1161 <= cp <= 0x11C2:
            v |= 0x40  # takes part in some normalization
        if ccc(cp) or cp in seconds or 0x1161 <= cp <= 0x11C2 or \
                (cp in decomps and decomps[cp][0] != [cp] and u16.normalize("NFC", chr(cp)) != chr(cp)):
            v |= 0x80  # may change under NFC
        flags.append(v)
    two_stage("category", flags)
    two_stage("ccc", [ccc(cp) for cp in range(MAX)])

    pool, rows = [], []
    for cp, (canon, compat) in sorted(decomps.items()):
        def put(seq):
            at = len(pool)
            pool.extend(seq)
            return at
        a = put(canon) if canon != [cp] else 0
        b = a if compat == canon else put(compat)
        rows.append("{0x%X, %d, %d, %d, %d}," % (cp, a, b, len(canon) if canon != [cp] else 0, len(compat)))
    assert len(pool) < 65536
    emit("uint32_t", "unicode_decomp_pool", pool, 16)
    out.append("const UnicodeDecomp unicode_decomps[%d] = {" % len(rows))
    for i in range(0, len(rows), 5):
        out.append("    " + " ".join(rows[i:i + 5]))
    out.append("};\nconst size_t unicode_n_decomps = %d;\n" % len(rows))
    rows = ["{0x%X, 0x%X, 0x%X}," % (a, b, c) for (a, b), c in sorted(pairs.items())]
    out.append("const UnicodePair unicode_pairs[%d] = {" % len(rows))
    for i in range(0, len(rows), 5):
        out.append("    " + " ".join(rows[i:i + 5]))
    out.append("};\nconst size_t unicode_n_pairs = %d;\n" % len(rows))

    # Scripts: 0 none, 1 Common, 2 Inherited, 3 Han; the rest in order of first appearance.
    numbers = {"Common": 1, "Inherited": 2, "Han": 3}
    scripts = []
    for cp in range(MAX):
        name = u16.script(chr(cp))
        if AGES[cp] > NORM_AGE or name in ("Unknown", "Zzzz"):
            scripts.append(0)
        else:
            scripts.append(numbers.setdefault(name, len(numbers) + 1))
    two_stage("script", scripts)

    gcbs = ["Other", "CR", "LF", "Control", "Extend", "ZWJ", "Regional_Indicator", "Prepend", "SpacingMark", "L", "V", "T",
            "LV", "LVT"]
    incbs = ["None", "Consonant", "Extend", "Linker"]
    grapheme = []
    for cp in range(MAX):
        c = chr(cp)
        g = u16.grapheme_cluster_break(c)
        i = u16.indic_conjunct_break(c)
        grapheme.append(gcbs.index(g) | incbs.index(i) << 4 | (0x40 if u16.is_extended_pictographic(c) else 0))
    two_stage("grapheme", grapheme)

    lower, upper, title = case_tables()
    emit_case("lower", lower)
    emit_case("upper", upper)
    emit_case("title", title)
    ranges("islower", lambda cp: u16.category(chr(cp)) == "Ll" or (cp > 127 and chr(cp).islower()))
    ranges("isupper", lambda cp: u16.category(chr(cp)) == "Lu" or (cp > 127 and chr(cp).isupper()))
    ranges("wide", lambda cp: u16.east_asian_width(chr(cp)) in "WF" and u16.category(chr(cp)) not in ("Mn", "Me"))
    ranges("zero", lambda cp: (u16.category(chr(cp)) in ("Mn", "Me", "Cf", "Zl", "Zp") and cp != 0xAD) or 0x1160 <= cp <= 0x11FF)
    ranges("cased", lambda cp: u16.category(chr(cp)) in ("Lu", "Ll", "Lt") or (cp > 127 and (chr(cp).islower() or chr(cp).isupper())))
    ranges("caseignorable", lambda cp: u16.category(chr(cp)) in ("Mn", "Me", "Cf", "Lm", "Sk")
           or u16.word_break(chr(cp)) in ("MidLetter", "MidNumLet", "Single_Quote"))
    sys.stdout.write("\n".join(out))


if __name__ == "__main__":
    main()
