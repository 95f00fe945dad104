#!/usr/bin/env python3
"""Memory curves from simulated mechanisms instead of drawn shapes (stdlib only).

usage: mechanisms.py [--n 600] [--seed 1] [--out FILE.jsonl]

A small process is run step by step: an allocator with arenas that keep what was freed, caches (by key, by least use,
by example), workers, a collector that runs now and then, evaluation and checkpoint buffers, lists that only grow,
graphs kept by a loss, mixed lifetimes that fragment the heap, file pages, restarts. Memory is what the mechanisms
hold; nobody draws a shape. The label follows from which mechanism is on and how far it got.
"""
import argparse, json, math, random


class Arena:
    """An allocator that hands out from free lists of size classes and returns nothing but its top."""

    def __init__(self, r, keep):
        self.r, self.keep, self.live, self.free = r, keep, 0.0, 0.0

    def alloc(self, mb):
        """Free memory of the wrong size is only partly usable."""
        usable = self.free * (1 - self.keep) if self.keep else self.free
        take = min(usable, mb)
        self.free -= take
        self.live += mb

    def release(self, mb):
        self.live -= mb
        self.free += mb * self.keep

    def rss(self):
        return self.live + self.free


def sim(kind, r):
    steps = int(math.exp(r.uniform(math.log(80), math.log(3000))))
    every = max(1, steps // int(math.exp(r.uniform(math.log(60), math.log(900)))))
    base = math.exp(r.uniform(math.log(150), math.log(20000)))
    unit = base * math.exp(r.uniform(math.log(0.02), math.log(1.5)))     # what the mechanism may reach
    ctx, series, events = {}, {}, []
    per_step = r.choice([1, 2, 4, 8, 16])
    junk_rate = base * math.exp(r.uniform(math.log(0.00005), math.log(0.004)))
    gc_every = int(math.exp(r.uniform(math.log(5), math.log(max(8, steps / 15)))))
    jitter = base * math.exp(r.uniform(math.log(0.00005), math.log(0.004)))
    warm = r.random() < 0.6
    warm_steps = steps * r.uniform(0.005, 0.08); warm_mb = base * r.uniform(0.02, 0.8)
    evals = r.random() < 0.4 or kind in ('eval_leak', 'eval_spikes')
    eval_every = max(6, int(steps / r.uniform(5, 25))); eval_len = max(1, int(eval_every * r.uniform(0.03, 0.2)))
    eval_mb = base * r.uniform(0.05, 0.9)
    save_every = max(10, int(steps / r.uniform(2, 8))) if r.random() < 0.3 else 0
    arena = Arena(r, 0.0)
    held = 0.0; junk = 0.0; walk = 0.0; file_mb = 0.0; seen = set(); lru = []; workers = 0
    xs, ys, anon, files = [], [], [], []
    label = None
    n_ex = max(8, int(steps * per_step * r.uniform(0.06, 0.6)))
    onset = steps * r.uniform(0.2, 0.6) if kind == 'leak_late' else 0
    every_k = r.choice([1, 1, 1, 3, 10, 25])
    cap = max(5, int(steps * r.uniform(0.05, 0.5)))
    keys = max(5, int(steps * per_step / r.uniform(3, 12)))
    frag_keep = r.uniform(0.5, 0.95); pool = []; pool_n = r.randint(20, 200)
    shapes = max(4, int(steps / r.uniform(6, 30)))
    restart_at = int(steps * r.uniform(0.4, 0.7)) if kind in ('leak_restart',) else -1
    if kind == 'fill_epoch':
        if r.random() < 0.9: ctx['epoch_steps'] = n_ex / per_step
        if r.random() < 0.5: ctx.update(examples=n_ex, batch=per_step)
    arenas_n = r.randint(4, 64)
    if kind == 'arenas': ctx['threads'] = arenas_n
    grown = [0.0] * arenas_n
    for s in range(steps):
        if s == restart_at:
            held = 0.0; junk = 0.0; ctx['restarts'] = 1
        t = s
        if kind in ('leak_list', 'leak_restart') and s % every_k == 0:                        # a list that only grows
            held += unit / steps * every_k * r.uniform(0.7, 1.3)
        elif kind == 'leak_graph':                                                            # a kept autograd graph, a little more each time
            held += unit / steps * (0.7 + 0.6 * s / steps) * r.uniform(0.8, 1.2)
        elif kind == 'leak_late' and s > onset and s % every_k == 0:
            held += unit / (steps - onset) * every_k * r.uniform(0.7, 1.3)
        elif kind == 'leak_warm' and s % every_k == 0:                                        # a cache that fills, with a leak under it
            held += 0.5 * unit / steps * every_k * r.uniform(0.7, 1.3)
            for _ in range(per_step): seen.add(r.randrange(max(4, keys // 6)))
        elif kind == 'eval_leak' and s and s % eval_every == 0:
            held += unit / (steps / eval_every) * r.uniform(0.8, 1.2)
        elif kind == 'fill_epoch':                                                            # every example decoded once and kept
            lo = s * per_step
            for e in range(lo, lo + per_step):
                if e < n_ex: held += unit / n_ex * r.gammavariate(4, 0.25)
        elif kind == 'fill_random':                                                           # coupon collector
            for _ in range(per_step): seen.add(r.randrange(keys))
            held = unit * len(seen) / keys
        elif kind == 'fill_lru':                                                              # bounded cache of recent keys
            if s < cap: held = unit * s / cap
        elif kind == 'shapes':                                                                # one kernel plan per new shape, Zipf
            z = int(min(shapes - 1, r.paretovariate(0.8) - 1)); seen.add(z); held = unit * len(seen) / shapes
        elif kind == 'arenas':                                                                # each arena keeps its worst case
            for _ in range(2):
                a = r.randrange(arenas_n); need = r.betavariate(2, 5); grown[a] = max(grown[a], need)
            held = unit * sum(grown) / arenas_n
        elif kind == 'frag':                                                                  # mixed lifetimes under churn
            if len(pool) < pool_n or r.random() < 0.5:
                mb = unit / pool_n * r.gammavariate(1.2, 1); arena.keep = frag_keep; arena.alloc(mb); pool.append(mb)
            if len(pool) > pool_n * 0.8: arena.release(pool.pop(r.randrange(len(pool))))
            arena.free = min(arena.free, unit)
            held = arena.rss()
        elif kind == 'page_cache':
            file_mb = min(unit * 2, file_mb + unit * 2 / (steps * 0.7))
        junk = junk + junk_rate * r.uniform(0.5, 1.5)
        if s % gc_every == 0: junk *= r.uniform(0.0, 0.15)
        walk = 0.9 * walk + r.gauss(0, jitter)
        y = base + (warm_mb * min(1, s / warm_steps) if warm else 0) + (unit * 0.5 * len(seen) / max(4, keys // 6) if kind == 'leak_warm' else 0) + held + junk + walk
        if evals and s and s % eval_every < eval_len:
            y += eval_mb * (0.5 + 0.5 * (s % eval_every) / eval_len)
            if s % eval_every == 0: events.append(s)
        if save_every and s and s % save_every < max(1, steps // 200): y += base * 0.4
        if s % every == 0:
            xs.append(t); ys.append(y + file_mb); anon.append(y); files.append(file_mb)
    if kind == 'page_cache': series['anon'] = [round(v, 3) for v in anon]
    if events and (kind == 'eval_leak' or r.random() < 0.5): ctx['validation_x'] = events
    label = {'leak_list': 'leak', 'leak_graph': 'leak', 'leak_late': 'leak', 'leak_warm': 'leak', 'leak_restart': 'leak', 'eval_leak': 'leak',
             'fill_epoch': 'cache_fill', 'fill_random': 'cache_fill', 'fill_lru': 'cache_fill', 'shapes': 'cache_fill', 'arenas': 'fragmentation', 'frag': 'fragmentation',
             'page_cache': 'cache_fill', 'eval_spikes': 'spikes', 'idle': 'steady', 'cut': 'too_short'}[kind]
    return xs, ys, series, ctx, label


KINDS = ['leak_list', 'leak_graph', 'leak_late', 'leak_warm', 'leak_restart', 'eval_leak', 'fill_epoch', 'fill_random', 'fill_lru', 'shapes', 'arenas', 'frag', 'page_cache', 'eval_spikes', 'idle', 'cut']


def make(k, seed):
    r = random.Random(seed * 100003 + k)
    kind = KINDS[k % len(KINDS)]
    xs, ys, series, ctx, label = sim('fill_epoch' if kind == 'cut' else kind, r)
    if kind == 'cut':                                                       # inside the first pass, its length known
        label = 'too_short'; end = ctx.get('epoch_steps')
        if end is None: ctx['epoch_steps'] = end = xs[-1] * 0.5
        m = max(3, sum(1 for x in xs if x < end * r.uniform(0.3, 0.9))); xs, ys = xs[:m], ys[:m]
        ctx.pop('validation_x', None)
    if kind in ('shapes', 'arenas', 'frag', 'fill_random'):                 # labelled by how far it got: still growing at the end is nobody's plateau
        n = len(ys); low = lambda a, b: sorted(ys[int(n * a):max(int(n * a) + 1, int(n * b))])[max(0, int(n * (b - a) * 0.2) - 1)]
        whole = low(0.9, 1) - low(0, 0.05); last = low(0.93, 1) - low(0.72, 0.79)
        if whole > 0 and last > 0.12 * whole: label = 'too_short'
    return dict(id=f'mec{k:04d}', source='mechanism', unit='MB', metric='rss', x_kind='step', x=xs, y=[round(v, 3) for v in ys], series=series, context=ctx, label=label, truth=label, cls=kind, meta={})


if __name__ == '__main__':
    ap = argparse.ArgumentParser(); ap.add_argument('--n', type=int, default=640); ap.add_argument('--seed', type=int, default=1); ap.add_argument('--out', default='mechanisms.jsonl')
    a = ap.parse_args()
    with open(a.out, 'w') as f:
        for k in range(a.n): f.write(json.dumps(make(k, a.seed)) + '\n')
