//! Writes the JavaScript around a compiled module: `FILE.wasm FOLDER`.

#[cfg(not(target_arch = "wasm32"))]
fn main() -> anyhow::Result<()> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [module, folder] = arguments.as_slice() else { anyhow::bail!("wanted: FILE.wasm FOLDER") };
    wasm_bindgen_cli_support::Bindgen::new().input_path(module).nodejs(true)?.typescript(false).generate(folder)
}

#[cfg(target_arch = "wasm32")]
fn main() {}
