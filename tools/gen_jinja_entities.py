#!/usr/bin/env python3
"""Writes src/chat/jinja_entity_tab.c: the named character references of HTML 5 (WHATWG), sorted by name.

    python3 tools/gen_jinja_entities.py > src/chat/jinja_entity_tab.c
"""
from html.entities import html5


def c_string(text):
    out = ""
    for byte in text.encode('utf-8'):
        ch = chr(byte)
        if byte < 0x20 or byte > 0x7E:
            out += '\\%03o' % byte
        else:
            out += '\\' + ch if ch in '"\\?' else ch
    return '"%s"' % out


print('/* Written by tools/gen_jinja_entities.py: names without the ampersand, and the text each stands for. */')
print('#include "chat/jinja_html.h"\n')
print('const JHtmlEntity jhtml_entities[] = {')
for name in sorted(html5):
    print('    {"%s", %s},' % (name, c_string(html5[name])))
print('};')
print('const size_t jhtml_n_entities = sizeof jhtml_entities / sizeof *jhtml_entities;')
