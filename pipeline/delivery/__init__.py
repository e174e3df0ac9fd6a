"""Sending a sealed plan to a destination: at most what was planned, resumable after any crash.

One process sends. Its main thread reads the sealed requests, and its other threads send them and write the ledger:

    requests of the plan ─────────────▶ main thread       Apply (`apply`): reads the ledger, orders phases and requests
                                       │ put()           waits while enough batches are queued
                                       ▼
                                 queues of batches       in doubt first, then pieces of split batches, then the others
                                       │ take
                                       ▼
                                 sender threads          Senders (`senders`): as many as `--max-concurrency`
                                  │    │     ▲
              enter() / leave()   │    │     │ send(Batch) -> Response
                 ┌────────────────┘    │     └────────── Destination (`destination`): CaptureDestination (`capture`) or
                 ▼                     │                 PerEventDestination (`capture_v1`), or that of a dry run
          Throttle (`throttle`)        │ begin(), tried(), finished()
          concurrency, rate, pauses    ▼
                                 queue of ledger writes
                                       │
                                       ▼
                                 recorder thread         Recorder (`recorder`): the only writer of the ledger;
                                                         one commit for everything that was queued meanwhile

A sender waits for `Throttle.enter`, then for the recorder to commit that the batch is begun, then sends it, repeatedly
if the response asks for that (`retry`), and queues the result for the recorder without waiting for it.
A response of 400 or 413 splits a batch (`size`), and one that differs between its events divides it
(`undecided`). `choice` decides to which endpoint a plan is sent. `outcome` has the limits of a run, its counts and how
it ended, `stopping` the reasons that end it early; `phases` decides which phases of a plan may be sent at all.

A destination decides what an answer means for the events of a batch. `transport` sends one POST and returns its answer,
following redirects, over connections with a deadline (`connections`): it depends on neither batches nor the ledger.
A new destination is one class with `address`, `send(Batch) -> Response` and `close()`.
"""
