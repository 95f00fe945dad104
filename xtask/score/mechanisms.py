#!/usr/bin/env python3
"""Memory curves from simulated mechanisms instead of drawn shapes (stdlib only).

usage: mechanisms.py [--n 880] [--seed 1] [--out FILE.jsonl]

A small process is run step by step: an allocator with arenas that keep what was freed, caches (by key, by least use,
by example), workers made anew each epoch, a collector that runs now and then, evaluation and checkpoint buffers, lists
that only grow and lists that are flushed, threads that never end, graphs kept by a loss, mixed lifetimes that fragment
the heap, pools that keep the largest batch, file pages, restarts. Memory is what the mechanisms hold; nobody draws a
shape. The label follows from which mechanism is on and, for those that end, from how far it got without the noise: over
within the first tenth is steady, still growing in the last quarter is too short (the corpus page's own rules).
"""
import argparse, json, math, random


class Arena:
    """An allocator that hands out from free lists of size classes and returns nothing but its top."""

    def __init__(self, keep):
        self.keep, self.live, self.free = keep, 0.0, 0.0

    def alloc(self, mb):
        """Free memory of the wrong size is only partly usable."""
        take = min(self.free * (1 - self.keep), mb)
        self.free -= take
        self.live += mb

    def release(self, mb):
        self.live -= mb
        self.free += mb * self.keep


LEAKS = ['leak_list', 'leak_graph', 'leak_late', 'leak_warm', 'leak_restart', 'leak_threads', 'eval_leak']
FILLS = {'fill_epoch': 'cache_fill', 'fill_random': 'cache_fill', 'fill_lru': 'cache_fill', 'shapes': 'cache_fill',
         'arenas': 'fragmentation', 'frag': 'fragmentation', 'pool': 'fragmentation', 'eval_first': 'warmup', 'page_cache': 'cache_fill'}
FLATS = ['eval_spikes', 'gc_heap', 'flushed', 'workers', 'idle']
KINDS = LEAKS + list(FILLS) + FLATS + ['cut']


class Job:
    """One process with one mechanism beside its usual noise."""

    def __init__(self, kind, r):
        self.kind, self.r = kind, r
        self.steps = int(math.exp(r.uniform(math.log(80), math.log(3000))))
        self.every = max(1, self.steps // int(math.exp(r.uniform(math.log(60), math.log(900)))))
        self.base = base = math.exp(r.uniform(math.log(150), math.log(20000)))
        self.per_step = r.choice([1, 2, 4, 8, 16])
        self.junk_rate = base * math.exp(r.uniform(math.log(0.00005), math.log(0.004)))
        self.gc_every = int(math.exp(r.uniform(math.log(5), math.log(max(8, self.steps / 15)))))
        self.jitter = base * math.exp(r.uniform(math.log(0.00005), math.log(0.004)))
        # What the mechanism may reach; never below what the noise lets anybody see.
        unit = base * math.exp(r.uniform(math.log(0.02), math.log(1.5)))
        self.unit = max(unit, 8 * (2.3 * self.jitter + 0.15 * self.junk_rate * self.gc_every))
        self.warm_steps = self.steps * r.uniform(0.005, 0.08)
        self.warm_mb = base * r.uniform(0.02, 0.8) if r.random() < 0.6 else 0.0
        self.evals = r.random() < 0.4 or kind in ('eval_leak', 'eval_spikes', 'eval_first')
        self.eval_every = max(6, int(self.steps / r.uniform(5, 25)))
        self.eval_len = max(1, int(self.eval_every * r.uniform(0.03, 0.2)))
        self.eval_mb = base * r.uniform(0.05, 0.9)
        self.save_every = max(10, int(self.steps / r.uniform(2, 8))) if r.random() < 0.3 else 0
        self.n_ex = max(8, int(self.steps * self.per_step * r.uniform(0.06, 0.6)))
        self.onset = self.steps * r.uniform(0.2, 0.6) if kind == 'leak_late' else 0
        self.every_k = r.choice([1, 1, 1, 3, 10, 25])
        self.cap = max(5, int(self.steps * r.uniform(0.05, 0.5)))
        self.keys = max(5, int(self.steps * self.per_step / r.uniform(3, 12)))
        self.pool_n = r.randint(20, 200)
        self.shapes = max(4, int(self.steps / r.uniform(6, 30)))
        self.restart_at = int(self.steps * r.uniform(0.4, 0.7)) if kind == 'leak_restart' else -1
        self.epoch = max(8, int(self.steps / r.uniform(3, 12)))
        self.first_eval = int(self.steps * r.uniform(0.02, 0.6))
        self.threads_p = r.uniform(15, 80) / self.steps
        self.arenas_n = r.randint(4, 64)
        self.born()

    def born(self):
        self.arena = Arena(self.r.uniform(0.5, 0.95))
        self.held = self.junk = self.file_mb = 0.0
        self.seen, self.pool, self.grown, self.top = set(), [], [0.0] * self.arenas_n, 0.0
        self.start = 0

    def step(self, s):
        """One training step of the mechanism; `held` is what it holds after it."""
        r, kind, unit, steps = self.r, self.kind, self.unit, self.steps
        if kind in ('leak_list', 'leak_restart') and s % self.every_k == 0:               # a list that only grows
            self.held += unit / steps * self.every_k * r.uniform(0.7, 1.3)
        elif kind == 'leak_graph':                                                        # a kept autograd graph, a little more each time
            self.held += unit / steps * (0.7 + 0.6 * s / steps) * r.uniform(0.8, 1.2)
        elif kind == 'leak_late' and s > self.onset and s % self.every_k == 0:
            self.held += unit / (steps - self.onset) * self.every_k * r.uniform(0.7, 1.3)
        elif kind == 'leak_warm':                                                         # a cache that fills, with a leak under it
            self.top += 0.5 * unit / steps * r.uniform(0.7, 1.3)
            for _ in range(self.per_step): self.seen.add(r.randrange(max(4, self.keys // 6)))
            self.held = self.top + 0.5 * unit * len(self.seen) / max(4, self.keys // 6)
        elif kind == 'leak_threads' and r.random() < self.threads_p:                      # a thread per request, never joined
            self.held += unit / (self.threads_p * steps)
        elif kind == 'eval_leak' and s and s % self.eval_every == 0:
            self.held += unit / (steps / self.eval_every) * r.uniform(0.8, 1.2)
        elif kind == 'fill_epoch':                                                        # every example decoded once and kept
            for e in range(s * self.per_step, (s + 1) * self.per_step):
                if e < self.n_ex: self.held += unit / self.n_ex * r.gammavariate(4, 0.25)
        elif kind == 'fill_random':                                                       # coupon collector
            for _ in range(self.per_step): self.seen.add(r.randrange(self.keys))
            self.held = unit * len(self.seen) / self.keys
        elif kind == 'fill_lru':                                                          # bounded cache of recent keys
            self.held = unit * min(1, s / self.cap)
        elif kind == 'shapes':                                                            # one kernel plan per new shape, Zipf
            self.seen.add(int(min(self.shapes - 1, r.paretovariate(0.8) - 1))); self.held = unit * len(self.seen) / self.shapes
        elif kind == 'arenas':                                                            # each arena keeps its worst case
            for _ in range(2):
                a = r.randrange(self.arenas_n); self.grown[a] = max(self.grown[a], r.betavariate(2, 5))
            self.held = unit * sum(self.grown) / self.arenas_n
        elif kind == 'frag':                                                              # mixed lifetimes under churn
            if len(self.pool) < self.pool_n or r.random() < 0.5:
                mb = unit / self.pool_n * r.gammavariate(1.2, 1); self.arena.alloc(mb); self.pool.append(mb)
            if len(self.pool) > self.pool_n * 0.8: self.arena.release(self.pool.pop(r.randrange(len(self.pool))))
            self.arena.free = min(self.arena.free, unit); self.held = self.arena.live + self.arena.free
        elif kind == 'pool':                                                              # batches vary, the pool keeps the largest
            self.top = max(self.top, r.gammavariate(3, 1)); self.held = unit * self.top / 8
        elif kind == 'eval_first':                                                        # the first evaluation makes buffers that stay
            self.held = unit if s >= self.first_eval else 0.0
        elif kind == 'gc_heap':                                                           # collected when it grew by a share of what lives
            self.held += unit / self.gc_every * r.uniform(0.5, 1.5)
            if self.held > unit: self.held = unit * r.uniform(0.0, 0.1)
        elif kind == 'flushed':                                                           # a history that each epoch's end writes out
            self.held = 0.0 if s % self.epoch == 0 else self.held + unit / self.epoch
        elif kind == 'workers':                                                           # loaders copy pages and die with their epoch
            self.held = unit * (1 - math.exp(-3 * (s % self.epoch) / self.epoch)) if s % self.epoch else 0.0
        elif kind == 'page_cache':
            self.file_mb = min(unit * 2, self.file_mb + unit * 2 / (steps * 0.7))

    def run(self):
        r, walk = self.r, 0.0
        xs, ys, anon, pure, events, ctx = [], [], [], [], [], {}
        for s in range(self.steps):
            if s == self.restart_at:                                                      # all of it begins anew, the warm-up too
                self.born(); self.start = s; ctx['restarts'] = 1
            self.step(s)
            self.junk += self.junk_rate * r.uniform(0.5, 1.5)
            if s % self.gc_every == 0: self.junk *= r.uniform(0.0, 0.15)
            walk = 0.9 * walk + r.gauss(0, self.jitter)
            warm = self.warm_mb * min(1, (s - self.start) / self.warm_steps)
            level = self.base * (1.0 if s - self.start else 0.6) + warm + self.held
            y = level + self.junk + walk
            if self.evals and s and s % self.eval_every < self.eval_len:
                y += self.eval_mb * (0.5 + 0.5 * (s % self.eval_every) / self.eval_len)
                if s % self.eval_every == 0: events.append(s)
            if self.save_every and s and s % self.save_every < max(1, self.steps // 200): y += self.base * 0.4
            if s % self.every == 0:
                xs.append(s); ys.append(y + self.file_mb); anon.append(y); pure.append((level, self.held))
        return xs, ys, anon, pure, events, ctx

    def label(self, pure):
        """What a perfect reader answers: the mechanism, and how far it got without the noise."""
        if self.kind in LEAKS: return 'leak'
        if self.kind in FLATS: return 'spikes' if self.kind == 'eval_spikes' else 'steady'
        if self.kind == 'page_cache': return 'cache_fill'
        n, (first, last) = len(pure), (pure[0][0], pure[-1][0])
        over = next(i for i, p in enumerate(pure) if p[0] - first >= 0.95 * (last - first)) / n
        if over <= 0.1: return 'spikes' if self.evals else 'steady'
        whole = pure[-1][1] - pure[0][1]
        if pure[-1][1] - pure[int(n * 0.75)][1] > 0.12 * whole: return 'too_short'
        return FILLS[self.kind]


def make(k, seed):
    r = random.Random(seed * 100003 + k)
    cls = KINDS[k % len(KINDS)]
    job = Job('fill_epoch' if cls == 'cut' else cls, r)
    xs, ys, anon, pure, events, ctx = job.run()
    label, series, meta = job.label(pure), {}, {}
    if cls in LEAKS: meta['onset_x'] = job.onset
    if cls == 'page_cache': series['anon'] = [round(v, 3) for v in anon]
    if events and (cls == 'eval_leak' or r.random() < 0.5): ctx['validation_x'] = events
    if cls == 'arenas': ctx['threads'] = job.arenas_n
    if job.kind == 'fill_epoch':
        if cls == 'cut' or r.random() < 0.9: ctx['epoch_steps'] = job.n_ex / job.per_step
        if r.random() < 0.5: ctx.update(examples=job.n_ex, batch=job.per_step)
    if cls == 'cut':                                                        # inside the first pass, its length known
        end = ctx['epoch_steps'] * r.uniform(0.3, 0.9); m = max(3, sum(1 for x in xs if x < end))
        label, xs, ys = 'too_short', xs[:m], ys[:m]; ctx.pop('validation_x', None)
    return dict(id=f'mec{k:04d}', source='mechanism', unit='MB', metric='rss', x_kind='step', x=xs, y=[round(v, 3) for v in ys], series=series, context=ctx, label=label, truth=label, cls=cls, meta=meta)


if __name__ == '__main__':
    ap = argparse.ArgumentParser(); ap.add_argument('--n', type=int, default=880); ap.add_argument('--seed', type=int, default=1); ap.add_argument('--out', default='mechanisms.jsonl')
    a = ap.parse_args()
    with open(a.out, 'w') as f:
        for k in range(a.n): f.write(json.dumps(make(k, a.seed)) + '\n')
