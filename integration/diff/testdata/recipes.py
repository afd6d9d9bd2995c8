"""Runs kazoo's recipes on the server in argv[1]. Prints one line per recipe that works."""

import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError
from kazoo.security import make_digest_acl

TIMEOUT = 20


def client():
    c = KazooClient(hosts=sys.argv[1], timeout=4)
    c.start(timeout=TIMEOUT)
    return c


def wait_for(what, condition):
    deadline = time.time() + TIMEOUT
    while not condition():
        if time.time() > deadline:
            sys.exit("waited in vain for " + what)
        time.sleep(0.01)


def lock():
    clients = [client() for _ in range(4)]
    held = []
    counter = [0]

    def work(c, name):
        for _ in range(10):
            with c.Lock("/lock", name):
                held.append(name)
                assert len(held) == 1, held
                counter[0] += 1
                held.pop()

    threads = [threading.Thread(target=work, args=(c, "worker%d" % i)) for i, c in enumerate(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(TIMEOUT)
    assert counter[0] == 40, counter
    for c in clients:
        c.stop()


def election():
    clients = [client() for _ in range(3)]
    leaders = []
    release = threading.Event()

    def lead(name):
        leaders.append(name)
        release.wait(TIMEOUT)

    threads = []
    for i, c in enumerate(clients):
        name = "candidate%d" % i
        threads.append(threading.Thread(target=c.Election("/election", name).run, args=(lead, name)))
        threads[-1].start()
    wait_for("a leader", lambda: leaders)
    assert len(leaders) == 1, leaders
    observer = client()
    wait_for("three candidates", lambda: len(observer.Election("/election").contenders()) == 3)
    release.set()
    for t in threads:
        t.join(TIMEOUT)
    assert sorted(leaders) == ["candidate0", "candidate1", "candidate2"], leaders
    for c in clients + [observer]:
        c.stop()


def children_watch():
    a, b = client(), client()
    a.ensure_path("/watched")
    seen = []
    a.ChildrenWatch("/watched", lambda children: seen.append(sorted(children)))
    b.create("/watched/one", ephemeral=True)
    wait_for("the first child", lambda: seen[-1] == ["one"])
    b.create("/watched/two")
    wait_for("the second child", lambda: seen[-1] == ["one", "two"])
    b.stop()
    wait_for("the end of the session", lambda: seen[-1] == ["two"])
    a.stop()


def data_watch():
    a, b = client(), client()
    seen = []
    a.DataWatch("/data", lambda data, stat: seen.append((data, stat.version if stat else None)))
    b.create("/data", b"0")
    wait_for("the node", lambda: seen[-1] == (b"0", 0))
    b.set("/data", b"1", version=0)
    wait_for("the change", lambda: seen[-1] == (b"1", 1))
    b.delete("/data", version=1)
    wait_for("the deletion", lambda: seen[-1] == (None, None))
    a.stop()
    b.stop()


def transaction():
    c = client()
    t = c.transaction()
    t.create("/t", b"x")
    t.check("/t", 0)
    t.set_data("/t", b"y", 0)
    t.create("/t/n-", sequence=True, ephemeral=True)
    path, check, stat, child = t.commit()
    assert (path, check, stat.version, child) == ("/t", True, 1, "/t/n-0000000000"), (path, check, stat, child)
    t = c.transaction()
    t.create("/u")
    t.delete("/t", 7)
    t.create("/v")
    results = t.commit()
    assert isinstance(results[1], BadVersionError), results
    assert c.exists("/u") is None and c.exists("/v") is None
    c.stop()


def acl():
    c, other = client(), client()
    c.add_auth("digest", "me:secret")
    c.create("/secret", b"x", acl=[make_digest_acl("me", "secret", all=True)])
    try:
        other.get("/secret")
        sys.exit("a stranger reads the node")
    except Exception as e:
        assert type(e).__name__ == "NoAuthError", e
    assert c.get("/secret")[0] == b"x"
    c.stop()
    other.stop()


def errors():
    c = client()
    c.create("/e", include_data=True)
    for raised, call in [
        (NodeExistsError, lambda: c.create("/e")),
        (NoNodeError, lambda: c.get("/nope")),
        (BadVersionError, lambda: c.set("/e", b"", version=3)),
    ]:
        try:
            call()
            sys.exit("no %s" % raised)
        except raised:
            pass
    assert c.command(b"ruok") == "imok"
    assert c.server_version()[:2] == (3, 8), c.server_version()
    c.stop()


def others():
    c = client()
    counter = c.Counter("/counter")
    counter += 3
    counter -= 1
    assert counter.value == 2
    queue = c.LockingQueue("/queue")
    queue.put(b"a")
    queue.put(b"b", 50)
    assert queue.get() == b"b" and queue.consume()
    with c.Semaphore("/semaphore", max_leases=2):
        pass
    party = c.Party("/party", "me")
    party.join()
    assert list(party) == ["me"]
    c.delete("/party", recursive=True)
    c.stop()


for recipe in [lock, election, children_watch, data_watch, transaction, acl, errors, others]:
    recipe()
    print("ok", recipe.__name__, flush=True)
