#!/usr/bin/env python3
"""Writes tests/data/sample/chain.json: what the sampling chain must leave, by a slow and obvious implementation.

Needs numpy; run it only to make the vectors anew. Every case is a handful of logits, parameters as a request names them,
the tokens before, and the ids that may be drawn with their probabilities. Cases that sit on a threshold (where a float32
engine may rightly decide otherwise) are thrown away.
"""

import json
import os
import sys

import numpy as np

MARGIN = 1e-4


class OnTheEdge(Exception):
    pass


def apart(values, threshold):
    v = np.asarray(values)
    v = v[np.isfinite(v)]
    if v.size and np.min(np.abs(v - threshold)) < MARGIN:
        raise OnTheEdge
    return threshold


def softmax(x):
    e = np.exp(x - np.max(x))
    return e / e.sum()


def penalties(x, p, history, breakers):
    n = p.get("repeat_last_n", 64)
    window = [] if n == 0 else history if n < 0 else history[-n:]
    for t in set(window):
        k = window.count(t)
        r = p.get("repeat_penalty", 1.0)
        x[t] = x[t] / r if x[t] > 0 else x[t] * r
        x[t] -= k * p.get("frequency_penalty", 0.0) + p.get("presence_penalty", 0.0)
    m, last = p.get("dry_multiplier", 0.0), p.get("dry_penalty_last_n", -1)
    if m <= 0 or last == 0:
        return
    window = history if last < 0 else history[-last:]
    allowed, base, worst = p.get("dry_allowed_length", 2), p.get("dry_base", 1.75), {}
    for i in range(1, len(window)):  # window[i] came after window[:i]; how much of that ends as the window does?
        run = 0
        while run < i and window[i - 1 - run] == window[-1 - run] and window[-1 - run] not in breakers:
            run += 1
        if run >= max(allowed, 1):
            worst[window[i]] = max(worst.get(window[i], 0), run)
    for t, run in worst.items():
        x[t] -= m * base ** (run - allowed)


def cumulative(order, prob, goal):
    total, n = 0.0, 0
    while n < len(order):
        total += prob[order[n]]
        n += 1
        if abs(total - goal) < MARGIN:
            raise OnTheEdge
        if total >= goal:
            break
    return order[:n]


def chain(x, p, history, allowed, breakers):
    x = x.astype(np.float64).copy()
    if allowed is not None:
        mask = np.ones(len(x), bool)
        mask[allowed] = False
        x[mask] = -np.inf
    for token, bias in p.get("logit_bias", []):
        x[token] += -np.inf if bias is False else bias
    penalties(x, p, history, breakers)
    temp, span = p.get("temperature", 0.0), p.get("dynatemp_range", 0.0)
    if temp == 0 and span == 0:
        return [int(np.argmax(x))], [1.0]
    ids = np.flatnonzero(np.isfinite(x))
    by_logit = lambda ids: sorted(ids, key=lambda i: (-x[i], i))
    if not p.get("mirostat", 0):
        if p.get("top_n_sigma", -1) > 0:
            v = x[ids]
            ids = ids[v >= apart(v, v.max() - p["top_n_sigma"] * v.std())]
        if p.get("top_k", 0) > 0:
            ids = np.sort(by_logit(ids)[: p["top_k"]])
        if p.get("typical_p", 1.0) < 1:
            q = softmax(x[ids])
            h = -(q * np.log(q)).sum()
            score = np.abs(-np.log(q) - h)
            if np.min(np.diff(np.sort(score))) < MARGIN:
                raise OnTheEdge
            ids = np.sort(ids[cumulative(list(np.argsort(score, kind="stable")), q, p["typical_p"])])
        if p.get("top_p", 1.0) < 1:
            q = dict(zip(ids, softmax(x[ids])))
            ids = np.sort(cumulative(by_logit(ids), q, p["top_p"]))
        if p.get("min_p", 0.0) > 0:
            q = softmax(x[ids])
            ids = ids[q >= apart(q / q.max(), p["min_p"]) * q.max()]
        if p.get("xtc_probability", 0.0) == 1 and p.get("xtc_threshold", 0.1) <= 0.5:
            q = softmax(x[ids])
            likely = [i for i, v in zip(ids, q) if v >= apart(q, p["xtc_threshold"])]
            if len(likely) > 1:
                gone = set(by_logit(likely)[:-1])
                ids = np.array([i for i in ids if i not in gone])
    if span > 0:
        low, high = max(0.0, temp - span), temp + span
        temp = high
        if len(ids) > 1:
            q = softmax(x[ids])
            h = -(q * np.log(q)).sum() / np.log(len(ids))
            temp = low + (high - low) * h ** p.get("dynatemp_exponent", 1.0)
    q = softmax(x[ids] / temp)
    mu = 2 * p.get("mirostat_tau", 5.0)
    if p.get("mirostat") == 1:
        top = np.sort(q)[::-1][:100]
        t = np.log(np.arange(2, len(top) + 1) / np.arange(1, len(top)))
        b = np.log(top[:-1] / top[1:])
        s = (t * b).sum() / (t * t).sum()
        e = s - 1
        k = ((e * 2.0**mu) / (1 - float(len(x)) ** -e)) ** (1 / s)
        if abs(k - round(k)) < 0.02:
            raise OnTheEdge
        ids = np.sort(by_logit(ids)[: max(1, int(k))])
        q = softmax(x[ids] / temp)
    elif p.get("mirostat") == 2:
        surprise = -np.log2(q)
        keep = surprise <= apart(surprise, mu)
        keep[np.argmax(q)] = True
        ids = ids[keep]
        q = softmax(x[ids] / temp)
    goal = p.get("adaptive_target", -1.0)
    if goal >= 0:
        d = np.abs(q - goal) / 0.3  # the first token's goal is the target itself
        q = softmax(5 - 10 * d * d / (1 + d))
    return [int(i) for i in ids], [float(v) for v in q]


def random_params(rng, n):
    p = {"temperature": float(rng.choice([0.0, 0.3, 0.8, 1.0, 1.5], p=[0.1, 0.2, 0.3, 0.2, 0.2]))}
    maybe = lambda share: rng.random() < share
    if maybe(0.3):
        p["top_k"] = int(rng.integers(1, n))
    if maybe(0.3):
        p["top_p"] = round(float(rng.uniform(0.05, 0.99)), 3)
    if maybe(0.25):
        p["min_p"] = round(float(rng.uniform(0.01, 0.5)), 3)
    if maybe(0.2):
        p["typical_p"] = round(float(rng.uniform(0.1, 0.95)), 3)
    if maybe(0.2):
        p["top_n_sigma"] = round(float(rng.uniform(0.3, 3)), 2)
    if maybe(0.2):
        p.update(xtc_probability=1, xtc_threshold=round(float(rng.uniform(0.02, 0.4)), 3))
    if maybe(0.2):
        p.update(dynatemp_range=round(float(rng.uniform(0.1, 1)), 2), dynatemp_exponent=float(rng.choice([0.5, 1, 2])))
    if maybe(0.3):
        p.update(repeat_penalty=round(float(rng.uniform(0.8, 1.6)), 2), repeat_last_n=int(rng.choice([-1, 0, 4, 16])))
    if maybe(0.2):
        p["presence_penalty"] = round(float(rng.uniform(-1, 2)), 2)
    if maybe(0.2):
        p["frequency_penalty"] = round(float(rng.uniform(-1, 2)), 2)
    if maybe(0.4):
        p.update(
            dry_multiplier=round(float(rng.uniform(0.2, 1.5)), 2),
            dry_allowed_length=int(rng.integers(1, 4)),
            dry_penalty_last_n=int(rng.choice([-1, 8, 20])),
        )
    if maybe(0.2):
        p["logit_bias"] = [
            [int(t), False if maybe(0.3) else round(float(rng.uniform(-5, 5)), 1)]
            for t in rng.choice(n, size=int(rng.integers(1, 4)), replace=False)
        ]
    if maybe(0.15):
        p.update(mirostat=int(rng.integers(1, 3)), mirostat_tau=round(float(rng.uniform(0.5, 3)), 2))
    elif maybe(0.15):
        p["adaptive_target"] = round(float(rng.uniform(0, 1)), 2)
    return p


def main(out):
    rng = np.random.default_rng(20260731)
    cases = []
    while len(cases) < 150:
        n = int(rng.integers(8, 90))
        x = np.round(rng.normal(0, float(rng.choice([1, 2.5, 6])), n), 2).astype(np.float32)
        if rng.random() < 0.2:
            x[rng.integers(0, n, 3)] = x.max()  # ties
        history = [int(t) for t in rng.integers(0, int(rng.choice([2, 4, n])), int(rng.integers(0, 40)))]
        allowed = [int(i) for i in np.flatnonzero(rng.random(n) < 0.5)] if rng.random() < 0.25 else None
        breakers = [int(t) for t in rng.choice(n, 2, replace=False)] if rng.random() < 0.5 else []
        p = random_params(rng, n)
        if allowed == []:
            continue
        try:
            ids, q = chain(x, p, history, allowed, breakers)
        except (OnTheEdge, ValueError, FloatingPointError):
            continue
        case = {"params": p, "logits": [round(float(v), 2) for v in x], "history": history, "breakers": breakers}
        if allowed is not None:
            case["allowed"] = allowed
        case["ids"] = ids
        case["p"] = [float("%.7g" % v) for v in q]
        cases.append(case)
    with open(out, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")


if __name__ == "__main__":
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(root, "tests/data/sample/chain.json"))
