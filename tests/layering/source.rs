//! The production code as syntax: read from `lib.rs` along its `mod` lines, without what is only
//! compiled for tests.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Arm, Attribute, Expr, ExprMatch, File, ImplItem, Item, ItemFn, ItemUse, Macro, UseTree,
    visit::{self, Visit},
};

/// One module of the crate.
pub(crate) struct Module {
    /// Names from the root: `["policy", "backoff"]`. The root itself has none.
    pub(crate) path: Vec<String>,
    /// The file it stands in, below `src`.
    pub(crate) file: String,
    items: Vec<Item>,
    /// What it makes available under a name of its own: name → absolute path.
    renames: BTreeMap<String, Vec<String>>,
}

/// The whole crate.
pub(crate) struct Crate {
    pub(crate) modules: BTreeMap<Vec<String>, Module>,
}

impl Crate {
    /// Reads `src/lib.rs` and everything that its `mod` lines lead to.
    pub(crate) fn read() -> Self {
        let mut read = Self { modules: BTreeMap::new() };
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        read.enter(vec![], &src.join("lib.rs"), &src);
        read
    }

    fn enter(&mut self, path: Vec<String>, file: &Path, folder: &Path) {
        let text = fs::read_to_string(file).unwrap();
        let File { items, .. } = syn::parse_file(&text).unwrap();
        self.fill(path, file, folder, items);
    }

    fn fill(&mut self, path: Vec<String>, file: &Path, folder: &Path, items: Vec<Item>) {
        let items: Vec<Item> = items.into_iter().filter(|item| !only_for_tests(attributes(item))).collect();
        for item in &items {
            let Item::Mod(module) = item else { continue };
            let name = module.ident.to_string();
            let inner = [path.clone(), vec![name.clone()]].concat();
            let below = folder.join(&name);
            match &module.content {
                Some((_, items)) => self.fill(inner, file, &below, items.clone()),
                None => self.enter(inner, &found(folder, &name), &below),
            }
        }
        let mut module = Module { path: path.clone(), file: below_src(file), items, renames: BTreeMap::new() };
        module.renames = module.uses().into_iter().collect();
        self.modules.insert(path, module);
    }

    /// The module that defines what an absolute path names; `None` outside of the crate.
    pub(crate) fn home<'a>(&'a self, path: &[String]) -> Option<&'a Module> {
        let mut module = self.modules.get(&vec![])?;
        for (place, name) in path.iter().enumerate() {
            let inner = [module.path.as_slice(), std::slice::from_ref(name)].concat();
            if let Some(inner) = self.modules.get(&inner) {
                module = inner;
            } else if let Some(target) = module.renames.get(name) {
                let rest = [target.as_slice(), &path[place + 1..]].concat();
                return if rest == path { Some(module) } else { self.home(&rest) };
            } else {
                break;
            }
        }
        Some(module)
    }
}

impl Module {
    /// The room it stands in: the first folder, or the file's own name at the top.
    pub(crate) fn room(&self) -> &str {
        self.path.first().map_or("lib", String::as_str)
    }

    /// The file within its room: a folder in a room counts as one.
    pub(crate) fn unit(&self) -> String {
        self.path.iter().take(2).cloned().collect::<Vec<_>>().join("/")
    }

    /// Every path of this crate that it names in code, as absolute paths.
    pub(crate) fn mentions(&self) -> BTreeSet<Vec<String>> {
        let mut paths = Paths::default();
        self.visit(&mut paths);
        paths.found.iter().filter_map(|path| self.absolute(path)).collect()
    }

    /// The first names of all paths in its code, such as `std`, `tokio` or `Some`.
    pub(crate) fn first_names(&self) -> BTreeSet<String> {
        let mut paths = Paths::default();
        self.visit(&mut paths);
        paths.found.iter().filter_map(|path| path.first().cloned()).collect()
    }

    /// Every path in its code, joined by `::`, as it is written.
    pub(crate) fn written_paths(&self) -> BTreeSet<String> {
        let mut paths = Paths::default();
        self.visit(&mut paths);
        paths.found.iter().map(|path| path.join("::")).collect()
    }

    /// The methods it calls, by name.
    pub(crate) fn called_methods(&self) -> BTreeSet<String> {
        let mut calls = Calls::default();
        self.visit(&mut calls);
        calls.0
    }

    /// Whether it waits: an `async fn`, an async block or an `.await`.
    pub(crate) fn waits(&self) -> bool {
        let mut waits = Waits(false);
        self.visit(&mut waits);
        waits.0
    }

    /// The functions in which a `match` has an arm for whatever is not named.
    pub(crate) fn catch_alls(&self) -> Vec<String> {
        let mut found = CatchAlls { within: vec![], found: vec![] };
        self.visit(&mut found);
        found.found
    }

    fn visit<'a>(&'a self, visitor: &mut impl Visit<'a>) {
        // Inline modules are modules of their own.
        self.items.iter().filter(|item| !matches!(item, Item::Mod(_))).for_each(|item| visitor.visit_item(item));
    }

    fn uses(&self) -> Vec<(String, Vec<String>)> {
        let uses = self.items.iter().filter_map(|item| if let Item::Use(item) = item { Some(item) } else { None });
        let mut leaves = vec![];
        uses.for_each(|item: &ItemUse| branch(&item.tree, vec![], &mut leaves));
        leaves.into_iter().filter_map(|(name, path)| self.absolute(&path).map(|path| (name, path))).collect()
    }

    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let inner = |name: &String| self.items.iter().any(|item| matches!(item, Item::Mod(module) if module.ident == name));
        match path.first()?.as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([self.path.as_slice(), &path[1..]].concat()),
            "super" => {
                let ups = path.iter().take_while(|name| *name == "super").count();
                let base = self.path.get(..self.path.len().checked_sub(ups)?)?;
                Some([base, &path[ups..]].concat())
            }
            _ if inner(&path[0]) => Some([self.path.as_slice(), path].concat()),
            _ => None,
        }
    }
}

fn found(folder: &Path, name: &str) -> PathBuf {
    let flat = folder.join(format!("{name}.rs"));
    if flat.exists() { flat } else { folder.join(name).join("mod.rs") }
}

pub(crate) fn below_src(file: &Path) -> String {
    let text = file.to_string_lossy().replace('\\', "/");
    text.rsplit_once("/src/").map_or(text.clone(), |(_, below)| below.to_owned())
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// `#[cfg(test)]`, also among other conditions that must all hold.
fn only_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).any(|attribute| {
        let condition = attribute.parse_args::<TokenStream>().unwrap().to_string().replace(' ', "");
        condition == "test" || condition.starts_with("all(test,") || condition.contains(",test)") && condition.starts_with("all(")
    })
}

fn branch(tree: &UseTree, mut path: Vec<String>, leaves: &mut Vec<(String, Vec<String>)>) {
    match tree {
        UseTree::Path(part) => {
            path.push(part.ident.to_string());
            branch(&part.tree, path, leaves);
        }
        UseTree::Name(part) if part.ident == "self" => leaves.push((path.last().cloned().unwrap_or_default(), path)),
        UseTree::Name(part) => {
            path.push(part.ident.to_string());
            leaves.push((part.ident.to_string(), path));
        }
        UseTree::Rename(part) => {
            path.push(part.ident.to_string());
            leaves.push((part.rename.to_string(), path));
        }
        UseTree::Glob(_) => leaves.push(("*".to_owned(), path)),
        UseTree::Group(group) => group.items.iter().for_each(|tree| branch(tree, path.clone(), leaves)),
    }
}

#[derive(Default)]
struct Paths {
    found: BTreeSet<Vec<String>>,
}

impl Visit<'_> for Paths {
    fn visit_item_use(&mut self, item: &ItemUse) {
        let mut leaves = vec![];
        branch(&item.tree, vec![], &mut leaves);
        self.found.extend(leaves.into_iter().map(|(_, path)| path));
    }

    fn visit_path(&mut self, path: &syn::Path) {
        self.found.insert(path.segments.iter().map(|part| part.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &syn::Visibility) {}

    fn visit_attribute(&mut self, _: &Attribute) {}

    /// What a macro is given is not parsed, so its paths are read off the tokens.
    fn visit_macro(&mut self, called: &Macro) {
        self.visit_path(&called.path);
        self.tokens(called.tokens.clone());
    }

    fn visit_impl_item(&mut self, item: &ImplItem) {
        if !matches!(item, ImplItem::Fn(item) if only_for_tests(&item.attrs)) {
            visit::visit_impl_item(self, item);
        }
    }
}

impl Paths {
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = vec![];
        let mut colons = 2;
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.found.insert(std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {
                    self.found.insert(std::mem::take(&mut path));
                    colons = 2;
                }
            }
        }
        self.found.insert(path);
    }
}

#[derive(Default)]
struct Calls(BTreeSet<String>);

impl Visit<'_> for Calls {
    fn visit_expr_method_call(&mut self, call: &syn::ExprMethodCall) {
        self.0.insert(call.method.to_string());
        visit::visit_expr_method_call(self, call);
    }
}

struct Waits(bool);

impl Visit<'_> for Waits {
    fn visit_expr(&mut self, expr: &Expr) {
        self.0 |= matches!(expr, Expr::Await(_) | Expr::Async(_));
        visit::visit_expr(self, expr);
    }

    fn visit_signature(&mut self, signature: &syn::Signature) {
        self.0 |= signature.asyncness.is_some();
    }
}

struct CatchAlls {
    within: Vec<String>,
    found: Vec<String>,
}

impl CatchAlls {
    fn within(&mut self, name: String, visit: impl FnOnce(&mut Self)) {
        self.within.push(name);
        visit(self);
        self.within.pop();
    }
}

impl Visit<'_> for CatchAlls {
    fn visit_item_fn(&mut self, item: &ItemFn) {
        self.within(item.sig.ident.to_string(), |found| visit::visit_item_fn(found, item));
    }

    fn visit_impl_item_fn(&mut self, item: &syn::ImplItemFn) {
        self.within(item.sig.ident.to_string(), |found| visit::visit_impl_item_fn(found, item));
    }

    fn visit_expr_match(&mut self, item: &ExprMatch) {
        if item.arms.iter().any(|Arm { pat, .. }| takes_whatever_comes(pat)) {
            self.found.push(self.within.last().cloned().unwrap_or_default());
        }
        visit::visit_expr_match(self, item);
    }
}

/// `_`, a name, or a tuple or alternative that holds one of them. What a named variant carries may
/// be left open.
fn takes_whatever_comes(pattern: &syn::Pat) -> bool {
    match pattern {
        syn::Pat::Wild(_) => true,
        syn::Pat::Ident(name) => name.subpat.is_none() && name.ident.to_string().starts_with(char::is_lowercase),
        syn::Pat::Tuple(tuple) => tuple.elems.iter().any(takes_whatever_comes),
        syn::Pat::Or(alternatives) => alternatives.cases.iter().any(takes_whatever_comes),
        syn::Pat::Paren(inner) => takes_whatever_comes(&inner.pat),
        syn::Pat::Reference(inner) => takes_whatever_comes(&inner.pat),
        _ => false,
    }
}
