//! Figures.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::place::with_kernel;
use crate::common::*;

as_root!(case_107_each_image_comes_once);
as_rootless!(case_107_each_image_comes_once);

/// Decodes a PNG of eight bits with or without alpha: prints width, height and the colours of most pixels.
const DECODE: &str = r"
import sys, zlib, struct, collections
data = sys.stdin.buffer.read(); at = 8; packed = b''
while at < len(data):
    length, kind = struct.unpack('>I4s', data[at:at + 8]); body = data[at + 8:at + 8 + length]; at += 12 + length
    if kind == b'IHDR': width, height, depth, colour = struct.unpack('>IIBB', body[:10])
    if kind == b'IDAT': packed += body
assert depth == 8 and colour in (2, 6)
size = {2: 3, 6: 4}[colour]; raw = zlib.decompress(packed); stride = width * size; before = bytearray(stride)
counts = collections.Counter()
for y in range(height):
    kind = raw[y * (stride + 1)]; line = bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
    for x in range(stride):
        a = line[x - size] if x >= size else 0; b = before[x]; c = before[x - size] if x >= size else 0
        p = a + b - c; d = [abs(p - a), abs(p - b), abs(p - c)]
        paeth = a if d[0] <= d[1] and d[0] <= d[2] else b if d[1] <= d[2] else c
        line[x] = line[x] + (0, a, b, (a + b) // 2, paeth)[kind] & 255
    before = line
    counts.update(bytes(line[x:x + 3]).hex() for x in range(0, stride, size))
print(width, height, *(name for name, _ in counts.most_common(2)))
";

fn decoded(png: &[u8]) -> String {
    let mut python = Command::new("/usr/bin/python3")
        .args(["-c", DECODE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    python.stdin.take().expect("piped").write_all(png).expect("it reads");
    let said = python.wait_with_output().expect("it ends");
    assert!(said.status.success(), "it is a whole PNG");
    String::from_utf8(said.stdout).expect("text").trim().to_owned()
}

/// Figures of one colour on another, of a size that says which it is.
fn figure(inches: u32, colour: &str) -> String {
    format!(
        "f = plt.figure(figsize=({inches}, 1), dpi=100, facecolor='white')\n\
         a = f.add_axes([0, 0, 0.75, 1]); a.axis('off'); a.add_patch(plt.Rectangle((0, 0), 1, 1, color='{colour}'))\n"
    )
}

fn case_107_each_image_comes_once(home: &Home) {
    with_kernel(home, true, |mcp, sandbox| {
        // The first one, in a home that cannot be written to.
        mcp.sh(&sandbox.id, "chmod 500 ~").good();
        let setup = "import matplotlib.pyplot as plt\nplt.rcParams['savefig.bbox'] = 'standard'\n\
            get_ipython().run_line_magic('config', \"InlineBackend.print_figure_kwargs = {'bbox_inches': None}\")";
        let ran = sandbox.code(mcp, setup);
        assert_eq!(ran.data()["exit_code"], 0, "{}", ran.tool.text());
        let code = format!(
            "{}plt.show()\n{}print('text', flush=True)",
            figure(2, "red"),
            figure(3, "blue")
        );
        let ran = sandbox.code(mcp, &code);
        assert_eq!(ran.data()["stderr"], "", "no trouble with caches");
        let images = ran.images();
        let types: Vec<_> = images.iter().map(|(mime, _)| mime.as_str()).collect();
        assert_eq!(types, ["image/png", "image/png"], "{}", ran.tool.text());
        assert_eq!(decoded(&images[0].1), "200 100 ff0000 ffffff");
        assert_eq!(decoded(&images[1].1), "300 100 0000ff ffffff");
        let outputs = ran.data()["outputs"].as_array().expect("a list").clone();
        let kinds: Vec<_> =
            outputs.iter().map(|one| one["type"].as_str().expect("a word")).collect();
        assert_eq!(kinds, ["display", "stdout", "display"]);
        assert_eq!(outputs[2]["images"], json!([1]));
        assert!(!outputs[0].to_string().contains("iVBOR"), "not once more among the fields");
        // A file that the code saves is the code's; one that the caller wants is stored too.
        let code = format!("{}f.savefig('/workspace/own.png')\nplt.close(f)", figure(1, "green"));
        let ran = sandbox.code(mcp, &code);
        assert_eq!(ran.images(), []);
        assert_eq!(decoded(&mcp.read_bytes(&sandbox.id, "own.png")), "100 100 008000 ffffff");
        let ran =
            sandbox.code_with(mcp, &figure(4, "black"), json!({"save_to": "/workspace/plots"}));
        let outputs = ran.data()["outputs"].as_array().expect("a list").iter();
        let mut saved = outputs.filter_map(|one| one["saved"]["image/png"].as_str());
        let saved = saved.next().unwrap_or_else(|| panic!("a path: {}", ran.tool.text()));
        assert!(saved.starts_with("/workspace/plots/python-"), "{saved}");
        assert_eq!(mcp.read_bytes(&sandbox.id, saved), ran.images()[0].1);
        // More than an answer has room for.
        let code = "import numpy\nfor n in range(3): plt.figure(figsize=(14, 14), dpi=100); plt.imshow(numpy.random.rand(1400, 1400, 3)); plt.axis('off'); plt.show()";
        let ran = sandbox.code(mcp, code);
        assert!(ran.note().contains("left out"), "{}", ran.note());
        assert!(ran.images().len() < 3);
        mcp.sh(&sandbox.id, "chmod 700 ~").good();
    });
}
