#!/usr/bin/env python3
"""Draws the figures of the demo: `portcullis demo --json | contrib/demo-plot.py > contrib/demo.svg`. Needs Python alone."""

import json
import sys

ATTACKS = [("silent_peer", "a server that never answers"), ("dripping_peer", "a server that drips"), ("dead_resolver", "a name that never resolves")]
INK, SOFT, HELD, REFUSED, IDLE, DURING = "#1b2430", "#566173", "#b5482e", "#c9d1dc", "#9db4d3", "#2c6cb8"

figures = json.load(sys.stdin)
drawn = []


def text(x, y, words, anchor="start", size=13, colour=INK, weight="normal"):
    drawn.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" fill="{colour}">{words}</text>')


def bar(x, y, width, height, colour):
    drawn.append(f'<rect x="{x:g}" y="{y:g}" width="{width:.1f}" height="{height:g}" rx="2" fill="{colour}"/>')


deadline = figures["deadline_ms"]
text(20, 30, f'{figures["pool"]} request threads, twenty strangers at once, a deadline of {deadline:,} ms', size=16, weight="bold")
text(220, 62, "their lookups", weight="bold")
text(580, 62, "everybody else's requests, 99 of 100 within", weight="bold")

worst = max(figures[key][name] for key, _ in ATTACKS for name in ("local_ms_p99_idle", "local_ms_p99_attack"))
for row, (key, label) in enumerate(ATTACKS):
    attack, y = figures[key], 84 + 78 * row
    text(205, y + 22, label, anchor="end")
    one = 320 / attack["lookups"]
    held = attack["timed_out_504"]
    for lookup in range(attack["lookups"]):
        bar(220 + one * lookup, y, one - 3, 32, HELD if lookup < held else REFUSED)
    text(220, y + 50, f'{held} held a thread, {attack["longest_hold_ms"]:,.0f} ms at most; {attack["refused_429"]} refused at once', size=12, colour=SOFT)
    for below, name, colour, when in ((0, "local_ms_p99_idle", IDLE, "before"), (17, "local_ms_p99_attack", DURING, "meanwhile")):
        width = 190 * attack[name] / worst
        bar(580, y + below, width, 14, colour)
        text(588 + width, y + below + 12, f"{attack[name]:.1f} ms {when}", size=12)
    text(580, y + 50, f'{attack["local_requests"]} requests meanwhile, {attack["local_failed"]} failed', size=12, colour=SOFT)

print('<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 940 320" font-family="system-ui, sans-serif">')
print("<title>An attack on the request threads, and everybody else's requests meanwhile</title>")
print('<rect width="940" height="320" fill="#ffffff"/>')
print("\n".join(drawn))
print("</svg>")
