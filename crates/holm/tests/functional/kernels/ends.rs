//! Code that does not end, or takes its kernel along.

use super::place::with_kernel;
use crate::common::*;

as_root!(
    case_105_kernels_after_timed_out_code,
    kernels_that_end,
    out_of_memory,
    a_call_that_is_given_up
);
as_rootless!(case_105_kernels_after_timed_out_code, kernels_that_end, a_call_that_is_given_up);

fn case_105_kernels_after_timed_out_code(home: &Home) {
    with_kernel(home, false, |mcp, sandbox| {
        for (code, kept) in [
            ("while True: pass", true),
            ("import subprocess; subprocess.run(['sleep', '6000'])", true),
            ("import time; print('so far', flush=True); time.sleep(6000)", true),
            ("import os; os.system('sleep 6000'); os.system('sleep 6000')", true),
            (
                "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
                false,
            ),
            ("sum(range(10 ** 14))", false),
        ] {
            sandbox.code(mcp, "x = 'kept'").value();
            let ran = sandbox.code_with(mcp, code, json!({"timeout_ms": 1500}));
            let data = ran.data();
            assert_eq!(data["timed_out"], json!(true), "{code}: {}", ran.tool.text());
            assert_eq!(ran.kept(), kept, "{code}: {}", ran.tool.text());
            let says = if kept { "variables are kept" } else { "variables are lost" };
            assert!(ran.note().contains(says), "{code}: {}", ran.note());
            assert_eq!(
                data["stdout"] == "so far\n",
                code.contains("so far"),
                "{}",
                ran.tool.text()
            );
            let state = sandbox.code(mcp, "x");
            if kept {
                assert_eq!(state.value(), "'kept'", "{code}");
            } else {
                assert_eq!(state.raised(), "NameError", "{code}");
            }
            assert_eq!(sandbox.code(mcp, "1+1").value(), "2", "{code}");
        }
        assert_eq!(sandbox.processes(mcp, "sleep"), 0, "nothing that was waited for is left");
    });
}

fn kernels_that_end(home: &Home) {
    with_kernel(home, false, |mcp, sandbox| {
        for (code, exit_code, says) in [
            ("import os; print('last words', flush=True); os._exit(3)", 3, "exit code 3"),
            ("import os; os.kill(os.getpid(), 9)", 137, "SIGKILL"),
            ("import ctypes; ctypes.string_at(0)", 139, "SIGSEGV"),
        ] {
            sandbox.code(mcp, "x = 1").value();
            let ran = sandbox.code(mcp, code);
            assert_eq!(ran.data()["exit_code"], exit_code, "{}", ran.tool.text());
            assert!(!ran.kept() && ran.note().contains(says), "{}", ran.note());
            assert!(ran.note().contains("variables are lost"), "{}", ran.note());
            assert_eq!(sandbox.code(mcp, "x").raised(), "NameError");
        }
        // One that ends while nobody looks.
        sandbox
            .code(
                mcp,
                "x = 1; import os, threading; threading.Timer(0.1, lambda: os._exit(4)).start()",
            )
            .value();
        until("the kernel has ended", || (sandbox.processes(mcp, "python3") == 0).then_some(()));
        let ran = sandbox.code(mcp, "1+1");
        assert_eq!(ran.value(), "2");
        assert!(
            ran.note().contains("exit code 4") && ran.note().contains("lost"),
            "{}",
            ran.note()
        );
        // Somebody kills the bridge.
        sandbox.code(mcp, "x = 1").value();
        let kill = "grep -lx holm-kernel /proc/[0-9]*/comm | cut -d/ -f3 | xargs kill -9";
        mcp.sh(&sandbox.id, kill).good();
        let ran = sandbox.code(mcp, "1+1");
        assert!(!ran.kept() && ran.note().contains("variables are lost"), "{}", ran.tool.text());
        assert_eq!(sandbox.code(mcp, "2+2").value(), "4");
        // Input fails at once, and says what to do.
        let asked = sandbox.code(mcp, "x = 5\nname = input('name? ')");
        assert_eq!(asked.raised(), "StdinNotImplementedError");
        assert!(asked.note().contains("put the values into the code"), "{}", asked.note());
        assert_eq!(sandbox.code(mcp, "x").value(), "5");
        assert_eq!(sandbox.code(mcp, "import sys; sys.exit(7)").raised(), "SystemExit");
        assert_eq!(sandbox.code(mcp, "x").value(), "5");
    });
}

fn out_of_memory(home: &Home) {
    with_kernel(home, false, |mcp, sandbox| {
        sandbox.code(mcp, "x = 1").value();
        let ran =
            sandbox.code(mcp, "all = []\nwhile True: all.append(bytearray(b'x' * 10_000_000))");
        if ran.raised() == "MemoryError" {
            println!("SKIP cgroup: no memory limit is in force here");
            return;
        }
        assert_eq!(ran.data()["out_of_memory"], json!(true), "{}", ran.tool.text());
        assert!(!ran.kept() && ran.note().contains("memory limit"), "{}", ran.note());
        assert_eq!(sandbox.code(mcp, "1+1").value(), "2");
    });
}

fn a_call_that_is_given_up(home: &Home) {
    with_kernel(home, false, |mcp, sandbox| {
        sandbox.code(mcp, "x = 'kept'").value();
        let code = "open('begun', 'w')\nwhile True: pass";
        let call = mcp.start(
            "run_code",
            json!({"sandbox_id": sandbox.id, "code": code, "timeout_ms": 200_000}),
        );
        until("the code runs", || {
            (mcp.sh(&sandbox.id, "test -e begun").exit_code == 0).then_some(())
        });
        mcp.cancel(call);
        // It is interrupted, so this has its turn long before the time limit of the other is over.
        let ran = sandbox.code_with(mcp, "x", json!({"timeout_ms": 100_000}));
        assert_eq!(ran.value(), "'kept'");
    });
}
