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

# 412 rows, in which 24 addresses are there twice.
SAMPLE = "email,updated_at\n" + "".join(
    f"user{number % 388}@example.com,2026-01-{number // 28 + 1:02}\n" for number in range(412)
)
DEDUPE = """import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
newest = {}
for row in sorted(rows, key=lambda row: row['updated_at']):
    newest[row['email'].lower()] = row
print(f'{len(rows)} rows -> {len(newest)} rows')
"""
WRONG_DEDUPE = DEDUPE.replace("row['email']", "row['Email']")
