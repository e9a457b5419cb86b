//! What a kubelet makes of the container of a pod before it starts it: its command and its whole environment, with the files of
//! the volumes that hold Secrets. It adds nothing of its own, and a source that it does not know fails the test.
//!
//! What a process can open here is not what a container sees: a path below a mount is led into a folder of the test.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The address of every pod.
pub const POD_IP: &str = "127.0.0.1";

/// What is in the namespace of the pod: the data of Secrets and ConfigMaps, by name.
pub type Data = BTreeMap<&'static str, BTreeMap<&'static str, String>>;

/// A container that is ready to be started.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Its command with its arguments.
    pub command: Vec<String>,
    /// Its environment.
    pub env: BTreeMap<String, String>,
}

/// Prepares the one container of a pod.
pub fn prepare(pod: &Value, data: &Data, folder: &Path) -> Prepared {
    let [container] = items(pod, "containers") else { panic!("one container: {pod}") };
    let mounts = mounts(pod, container, data, folder);
    let mut env = BTreeMap::new();
    for source in items(container, "envFrom") {
        let (object, is_optional) = source_of(source);
        let prefix = source["prefix"].as_str().unwrap_or_default();
        let found = data.get(object);
        assert!(found.is_some() || is_optional, "the pod would wait for {object}");
        env.extend(found.into_iter().flatten().map(|(key, value)| (format!("{prefix}{key}"), value.clone())));
    }
    for variable in items(container, "env") {
        let value = match variable.get("valueFrom") {
            None => expanded(text(variable, "value"), &env),
            Some(source) => of(source, data),
        };
        env.insert(text(variable, "name").to_owned(), led(&value, &mounts));
    }
    let words = [items(container, "command"), items(container, "args")].concat();
    let command = words.iter().map(|word| expanded(word.as_str().unwrap(), &env)).collect();
    Prepared { command, env }
}

/// The object that an entry of `envFrom` names, and whether the pod starts without it.
fn source_of(source: &Value) -> (&str, bool) {
    let reference = source.get("secretRef").or_else(|| source.get("configMapRef")).expect("a source");
    (text(reference, "name"), reference["optional"] == true)
}

/// What a variable takes from elsewhere.
fn of(source: &Value, data: &Data) -> String {
    if let Some(key) = source.get("secretKeyRef") {
        let (secret, key) = (text(key, "name"), text(key, "key"));
        let found = data.get(secret).and_then(|keys| keys.get(key));
        return found.unwrap_or_else(|| panic!("the pod would wait for {key} of {secret}")).clone();
    }
    match source["fieldRef"]["fieldPath"].as_str() {
        Some("status.podIP") => POD_IP.to_owned(),
        _ => panic!("a source that is new here: {source}"),
    }
}

/// `$(NAME)` stands for what was set before; what is not set stays as it is.
fn expanded(value: &str, env: &BTreeMap<String, String>) -> String {
    assert!(!value.contains("$$"), "an escaped dollar is new here: {value}");
    env.iter().fold(value.to_owned(), |value, (name, set)| value.replace(&format!("$({name})"), set))
}

/// Where in the folder each mount is. Secrets are there as files, and everything else is empty.
fn mounts(pod: &Value, container: &Value, data: &Data, folder: &Path) -> Vec<(String, PathBuf)> {
    let of = |mount: &Value| {
        let path = text(mount, "mountPath");
        let place = folder.join(path.trim_start_matches('/'));
        let volume = items(pod, "volumes").iter().find(|volume| volume["name"] == mount["name"]);
        let volume = volume.unwrap_or_else(|| panic!("no volume for {mount}"));
        match (volume["secret"]["secretName"].as_str(), mount["subPath"].as_str()) {
            (Some(secret), None) => {
                std::fs::create_dir_all(&place).unwrap();
                let keys = data.get(secret).unwrap_or_else(|| panic!("the pod would wait for {secret}"));
                keys.iter().for_each(|(key, value)| std::fs::write(place.join(key), value).unwrap());
            }
            (Some(secret), Some(key)) => {
                std::fs::create_dir_all(place.parent().unwrap()).unwrap();
                std::fs::write(&place, &data[secret][key]).unwrap();
            }
            (None, _) => std::fs::create_dir_all(&place).unwrap(),
        }
        (path.to_owned(), place)
    };
    items(container, "volumeMounts").iter().map(of).collect()
}

/// The value with every path of it that is below a mount, of several the longest, led into the folder.
fn led(value: &str, mounts: &[(String, PathBuf)]) -> String {
    let led = |path: &str| {
        let below = mounts.iter().filter(|(mount, _)| path.starts_with(mount.as_str()));
        match below.max_by_key(|(mount, _)| mount.len()) {
            Some((mount, place)) => path.replacen(mount.as_str(), place.to_str().unwrap(), 1),
            None => path.to_owned(),
        }
    };
    value.split_inclusive([',', ':']).map(led).collect()
}

fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}
