# Sourced by scripts/test: commands that run beside one another, as many at once as there are cores.
# shellcheck shell=bash
logs=build/test/logs
rm -rf "$logs" && mkdir -p "$logs"
at_once=$(nproc)
declare -A running=() since=() # names and starting times by process id
failed=()
trap end_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# beside NAME COMMAND...: starts the command as soon as a core is free; what it prints is shown when it has ended
beside() {
    local name=$1
    shift
    while [ ${#running[@]} -ge "$at_once" ]; do await_one; done
    set -m # a process group of its own, which can be ended as a whole
    "$@" > "$logs/$name" 2>&1 < /dev/null &
    set +m
    running[$!]=$name since[$!]=$SECONDS
    say "$name: started"
}

# await_all: waits for what runs; fails if any of all that ran did
await_all() {
    while [ ${#running[@]} -gt 0 ]; do await_one; done
    [ ${#failed[@]} -eq 0 ] || { say "failed: $(printf '%s; ' "${failed[@]}")" && return 1; }
}

await_one() {
    local pid name status=0 verdict=passed
    until pid=$(an_ended_one); do sleep 0.2; done # wait -n forgets one of two that end together
    wait "$pid" || status=$?
    name=${running[$pid]}
    [ $status -eq 0 ] || { failed+=("$name") && verdict="failed (exit status $status)"; }
    cat "$logs/$name"
    say "$name: $verdict after $((SECONDS - since[$pid])) s"
    unset "running[$pid]"
}

an_ended_one() {
    local pid
    for pid in "${!running[@]}"; do
        kill -0 "$pid" 2>/dev/null || { echo "$pid" && return 0; }
    done
    return 1
}

end_all() {
    local pid
    for pid in "${!running[@]}"; do kill -INT -- "-$pid" 2>/dev/null || true; done
    wait
}
