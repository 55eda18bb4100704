"""The whole way of an agent, for every client that has a connection to speak over."""

import payload


async def flow(list_tools, call):
    """The whole way of an agent; `call` returns (structured result, is_error)."""
    assert payload.TOOLS <= await list_tools(), "a tool is missing"

    async def ok(name, /, **arguments):
        result, is_error = await call(name, arguments)
        assert not is_error, (name, result)
        return result

    box = await ok("create_sandbox", name="client-test", timeout_minutes=5)
    sandbox = {"sandbox_id": box["sandbox_id"]}
    assert box["status"] == "running", box
    path = "/workspace/awkward.py"
    wrote = await ok("write_file", path=path, content=payload.TEXT, **sandbox)
    assert wrote["bytes_written"] == len(payload.TEXT.encode()), wrote
    ran = await ok("run_command", command=f"python3 {path}", **sandbox)
    assert (ran["exit_code"], ran["stdout"], ran["stderr"]) == (0, payload.STDOUT, ""), ran
    listed = await ok("list_files", path="/workspace", **sandbox)
    sizes = {row["path"]: row["size"] for row in listed["files"] if row["type"] == "file"}
    assert sizes[path] == len(payload.TEXT.encode()), sizes
    assert "/workspace/made-by-run.txt" in sizes, sizes
    made = await ok("read_file", path="/workspace/made-by-run.txt", **sandbox)
    assert made["content"] == "made `id`", made
    back = await ok("read_file", path=path, **sandbox)
    assert back["content"] == payload.TEXT, "the script came back changed"
    failed, is_error = await call("run_command", {"command": "exit 3", **sandbox})
    assert is_error and failed["exit_code"] == 3, failed
    await ok("destroy_sandbox", **sandbox)
    gone, is_error = await call("run_command", {"command": "true", **sandbox})
    assert is_error, gone
    await dedupe(ok, call)


async def dedupe(ok, call):
    """An agent writes a script, sees it fail, mends it, and sees it work."""
    box = await ok("create_sandbox", name="csv-dedupe", timeout_minutes=15)
    sandbox = {"sandbox_id": box["sandbox_id"]}
    await ok("write_file", path="sample.csv", content=payload.SAMPLE, **sandbox)
    await ok("write_file", path="dedupe.py", content=payload.WRONG_DEDUPE, **sandbox)
    command = {"command": "python3 /workspace/dedupe.py sample.csv", **sandbox}
    ran, is_error = await call("run_command", command)
    assert is_error and ran["exit_code"] == 1 and "KeyError: 'Email'" in ran["stderr"], ran
    await ok("write_file", path="dedupe.py", content=payload.DEDUPE, **sandbox)
    ran = await ok("run_command", **command)
    assert ran["stdout"] == "412 rows -> 388 rows\n", ran
    await ok("destroy_sandbox", **sandbox)
