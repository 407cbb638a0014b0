"""Runs: one coordinator that thinks, one loop that keeps slots busy, one seam below it.

    run                   what users call: `run` and `run_many` check, then drive sessions in a loop
    loop, session         keep every slot busy; one session is one run as its driver sees it, with
                          its evaluations under way, retried and timed
    failures              when failures are reason to stop
    executor              the seam: what the loop asks of the place where runs are worked on
    ray_executor          on Ray: actor, slots, ray_cluster; tasks is one fold on a worker
    local_executor        on this machine: local_worker is one process of it
    inline_executor       in this very process
    coordinator           who owns a run's optimizer and journal, its best config and stop reason
    background            suggestions and fits that the coordinator makes ahead of time
    status, callbacks     what displays read, and who is told what happens
    display, terminal     what a terminal shows, and how
    result, run_report    what a run gives back, and its page

Only `ray_executor`, `actor`, `ray_cluster` and `slots` know Ray.
"""
