"""The script that every client sends through `write_file`: text that breaks naive transports."""

import hashlib

LINE = 3 << 20
# Linux takes at most 128 KiB in one argument of a program; for clients that pass calls so.
SHORT_LINE = 100 << 10


def script(line):
    """The script, with a single line of that length."""
    return (
        "import hashlib, sys\n"
        "single = 'it''s'; double = \"say \\\"hi\\\"\"; ticks = '`id`'; sub = '$(id) ${HOME}'\n"
        "control = '\x01\x02\x1b\x7f é 日本語 \u2028'\r\n"
        f"big = '{'x' * line}'\n"
        "print(len(big), ticks, sub)\n"
        "print(hashlib.sha256(open(sys.argv[0], 'rb').read()).hexdigest())\n"
        "open('/workspace/made-by-run.txt', 'w').write('made ' + ticks)"
    )


def output(line):
    """What the script prints."""
    digest = hashlib.sha256(script(line).encode()).hexdigest()
    return f"{line} `id` $(id) ${{HOME}}\n{digest}\n"


TEXT = script(LINE)
STDOUT = output(LINE)
TOOLS = {
    "create_sandbox", "run_command", "run_code", "write_file", "read_file", "list_files",
    "get_sandbox", "list_sandboxes", "extend_sandbox", "destroy_sandbox", "get_usage",
    "get_service_info",
}
