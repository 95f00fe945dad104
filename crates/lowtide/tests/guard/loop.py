"""A training loop of one's own that keeps a bit more memory at every step: what the guard's tests run.

Each step's number and "loss" are written to a log, so that a test can see which steps were made, how often, and whether
a life that began from a checkpoint goes on exactly where the one before it ended.
"""

import argparse
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import lowtide

parser = argparse.ArgumentParser()
parser.add_argument("--way", choices=["flag", "term", "nothing"], default="flag")
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--step-ms", type=float, default=20)
parser.add_argument("--leak", type=float, default=0, help="MiB a step")
parser.add_argument("--hold", type=float, default=0, help="MiB from the start")
parser.add_argument("--save", required=True, help="folder of checkpoints")
parser.add_argument("--save-takes", type=float, default=0, help="MiB that a save takes for itself")
parser.add_argument("--save-ms", type=float, default=0)
parser.add_argument("--weigh", type=int, default=0, help="MiB of a checkpoint, which is then written in place")
parser.add_argument("--save-at", type=int, default=0, help="save once, after this step")
parser.add_argument("--every", type=int, default=0, help="save every so many steps")
parser.add_argument("--eval-every", type=int, default=0)
parser.add_argument("--eval-takes", type=float, default=0, help="MiB that an evaluation takes for itself")
parser.add_argument("--log", required=True)
parser.add_argument("--from", dest="begin", default=os.environ.get("LOWTIDE_CHECKPOINT"))
parser.add_argument("--trouble", choices=["hangs", "stalls", "fails", "breaks", "doubles", "forgets", "leaves", "refills"], default=None)
parser.add_argument("--trouble-at", type=int, default=0)
parser.add_argument("--epochs", type=float, default=0)
parser.add_argument("--epoch-steps", type=int, default=0)
parser.add_argument("--hang-leak", type=float, default=0, help="MiB that a save that hangs takes every 20 ms")
args = parser.parse_args()

MIB = 1 << 20
kept = []


def take(mib):
    """Memory that was really written."""
    return bytearray(b"\1") * int(mib * MIB)


def save(step, loss, asked=False):
    path = os.path.join(os.path.abspath(args.save), "ckpt-%d.pt" % step)
    with lowtide.mark("save", step, path=path):
        room = take(args.save_takes) if args.save_takes else None
        time.sleep(args.save_ms / 1000)
        if asked and args.trouble == "hangs":
            print("hangs", flush=True)
            threading.Thread(target=leak_on, daemon=True).start()
            time.sleep(3600)
        if asked and args.trouble == "stalls" and not args.begin and not woken.is_set():
            print("stalls", flush=True)
            woken.wait(3600)
        if asked and args.trouble == "fails":
            raise OSError(28, "No space left on device")
        whole = pickle.dumps({"step": step, "loss": loss})
        if asked and args.trouble == "breaks":
            whole = whole[:-4]
        if args.weigh:
            with open(path, "wb") as file:
                pickle.dump({"step": step, "loss": loss, "weights": bytes(args.weigh * MIB)}, file)
            return
        with open(path + ".part", "wb") as file:
            file.write(whole)
        os.rename(path + ".part", path)
        del room


def leak_on():
    while True:
        kept.append(take(args.hang_leak or args.leak or 1))
        time.sleep(0.02)


step, loss = 0, 1
if args.begin and args.trouble != "forgets":
    with open(args.begin, "rb") as file:
        found = pickle.load(file)
    step, loss = found["step"], found["loss"]

terminated, woken = threading.Event(), threading.Event()
if args.trouble == "stalls":
    signal.signal(signal.SIGUSR1, lambda *_: woken.set())
if args.way == "term":
    signal.signal(signal.SIGTERM, lambda *_: terminated.set())
if args.way == "nothing":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

if args.trouble == "leaves":
    subprocess.Popen(["sleep", "600"])
if args.trouble == "refills":
    # A cache of all examples seen: whoever skips to a step reads them again.
    kept.extend(take(args.leak) for _ in range(step))
held = take(args.hold) if args.hold else None
os.makedirs(args.save, exist_ok=True)
if args.epoch_steps:
    lowtide.mark("info", examples=args.epoch_steps, batch=1, epoch_steps=args.epoch_steps, epochs=args.epochs)
print("ready", step, flush=True)
with open(args.log, "a", buffering=1) as log:
    while step < args.steps:
        with lowtide.step(step + 1):
            time.sleep(args.step_ms / 1000)
            kept.append(take(args.leak))
            step += 1
            loss = (loss * 6364136223846793005 + step) % 2**64
            log.write("%d %d\n" % (step, loss))
            if args.trouble == "doubles" and step == args.trouble_at and not args.begin:
                while True:
                    kept.append(take(16))
        if args.eval_every and step % args.eval_every == 0:
            with lowtide.mark("eval", step):
                room = take(args.eval_takes)
                time.sleep(0.1)
                del room
        if (args.every and step % args.every == 0) or step == args.save_at:
            save(step, loss)
        asked = (args.way == "flag" and lowtide.should_stop()) or terminated.is_set()
        if asked:
            save(step, loss, asked=True)
            lowtide.stop_done()
            print("stopped", step, flush=True)
            sys.exit(0)
print("finished", step, flush=True)
