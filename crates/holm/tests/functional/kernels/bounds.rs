//! Code that says too much.

use super::place::with_kernel;
use crate::common::*;

as_root!(floods_are_bounded);
as_rootless!(floods_are_bounded);

fn floods_are_bounded(home: &Home) {
    with_kernel(home, false, |mcp, sandbox| {
        let length = |ran: &Value, name: &str| ran[name].as_str().expect("text").len();
        let ran = sandbox.code(
            mcp,
            "print('first')\nfor n in range(30): print(str(n) * 1_000_000)\nprint('last')",
        );
        let data = ran.data();
        assert_eq!(data["stdout_truncated"], json!(true));
        assert!(data["stdout_bytes"].as_u64() > Some(30_000_000), "{}", data["stdout_bytes"]);
        assert!(length(data, "stdout") < (1 << 20) + 200, "{}", length(data, "stdout"));
        let text = data["stdout"].as_str().expect("text");
        assert!(text.starts_with("first\n") && text.ends_with("\nlast\n"));
        assert_eq!(text.matches("bytes cut").count(), 1);
        let many = "import sys\nfor n in range(5000): print(n, flush=True); print(n, file=sys.stderr, flush=True)";
        let ran = sandbox.code(mcp, many);
        assert!(ran.data()["outputs"].as_array().expect("a list").len() <= 1000);
        assert!(ran.data()["stdout"].as_str().expect("text").ends_with("4999\n"));
        let rich = "from IPython.display import HTML, display\nfor n in range(4): display(HTML(str(n) * 3_000_000))";
        let ran = sandbox.code(mcp, rich);
        let outputs = ran.data()["outputs"].as_array().expect("a list").clone();
        assert_eq!(outputs.len(), 4);
        assert!(outputs[0]["data"]["text/html"].is_string());
        assert_eq!(outputs[3]["left_out_bytes"]["text/html"], 3_000_000);
        assert!(ran.note().contains("left out"), "{}", ran.note());
        // One message that no answer could hold.
        let ran = sandbox.code(mcp, "display(HTML('x' * 40_000_000)); 'end'");
        assert_eq!(ran.value(), "'end'");
        assert!(ran.note().contains("left out"), "{}", ran.note());
        let ran = sandbox.code(mcp, "raise ValueError('x' * 10_000_000)");
        assert!(ran.tool.reply.to_string().len() < 1 << 20, "{}", ran.tool.reply.to_string().len());
        assert_eq!(sandbox.code(mcp, "1+1").value(), "2");
        let peak = memory_peak(mcp.pid());
        assert!(peak < 600 << 20, "the service took {peak} bytes");
    });
}
