"""The script that every client sends through `write_file`: text that breaks naive transports."""

import hashlib

LINE = "x" * (3 << 20)
TEXT = (
    "import hashlib, sys\n"
    "single = 'it''s'; double = \"say \\\"hi\\\"\"; ticks = '`id`'; sub = '$(id) ${HOME}'\n"
    "control = '\x01\x02\x1b\x7f é 日本語 \u2028'\r\n"
    f"big = '{LINE}'\n"
    "print(len(big), ticks, sub)\n"
    "print(hashlib.sha256(open(sys.argv[0], 'rb').read()).hexdigest())\n"
    "open('/workspace/made-by-run.txt', 'w').write('made ' + ticks)"
)
DIGEST = hashlib.sha256(TEXT.encode()).hexdigest()
STDOUT = f"{len(LINE)} `id` $(id) ${{HOME}}\n{DIGEST}\n"
TOOLS = {
    "create_sandbox", "run_command", "run_code", "write_file", "read_file", "list_files",
    "get_sandbox", "list_sandboxes", "extend_sandbox", "destroy_sandbox", "get_usage",
    "get_service_info",
}
