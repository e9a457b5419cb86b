//! Flags as people type them: what they become, and what is said of the wrong ones.
//! No process is started.

use super::super::cli::Cli;
use super::*;
use clap::{CommandFactory, Parser};

fn flags(words: &str) -> Flags {
    Cli::try_parse_from(std::iter::once("coder-k8s").chain(words.split_whitespace())).unwrap().flags
}

#[test]
fn every_flag_has_its_environment_variable() {
    for argument in Cli::command().get_arguments() {
        let Some(name) = argument.get_long() else { continue };
        if ["help", "version"].contains(&name) {
            continue;
        }
        let expected = format!("CODER_K8S_{}", name.to_uppercase().replace('-', "_"));
        let found = argument.get_env().map(|variable| variable.to_string_lossy().into_owned());
        assert_eq!(found.as_deref(), Some(expected.as_str()), "--{name}");
        assert!(argument.get_help().is_some(), "--{name} has no help");
    }
}

#[test]
fn conditions_are_metrics_unless_somebody_says_no() {
    assert!(flags("").condition_metrics && flags("--condition-metrics=true").condition_metrics);
    assert!(!flags("--condition-metrics=false").condition_metrics);
}

#[test]
fn defaults_work_together_and_warn_about_nothing() {
    assert_eq!(flags("").check(), Ok(Vec::new()));
}

#[test]
fn coderd_flags_are_ignored_with_a_warning_unless_the_mode_uses_them() {
    let warnings = flags("--coder-url=http://a --coder-namespace=b").check().unwrap();
    assert_eq!(warnings.len(), 2);
    assert!(warnings[0].contains("--coder-url"));
}

#[test]
fn half_a_coderd_configuration_names_what_is_missing() {
    let error = flags("--app=aggregated-apiserver --coder-url=http://a").check().unwrap_err();
    assert!(error.to_string().contains("--coder-session-token, --coder-namespace"), "{error}");
    let all = "--app=aggregated-apiserver --coder-url=http://a --coder-session-token=t --coder-namespace=n";
    assert_eq!(flags(all).check(), Ok(Vec::new()));
}

#[test]
fn the_account_for_grants_is_the_shipped_one_or_another_that_can_exist() {
    assert_eq!(flags("").grants_account, "coder-k8s-grants");
    assert_eq!(flags("--grants-account=team-coder-k8s-grants").check(), Ok(Vec::new()));
    for bad in ["--grants-account=", "--grants-account=kube-system:default", "--grants-account=a/b"] {
        assert!(flags(bad).check().unwrap_err().to_string().contains("coder.com/grants-account"), "{bad}");
    }
}

#[test]
fn external_certificates_need_a_folder_and_a_folder_needs_them() {
    assert!(flags("--webhook-ca=external").check().is_err());
    assert!(flags("--tls-dir=/x").check().is_err());
    assert!(flags("--webhook-ca=external --tls-dir=/x").check().is_ok());
    assert!(flags("--webhook-ca=external --tls-dir=/x --keep-ca=false").check().is_ok());
    assert!(flags("").certificates.keep_ca && !flags("--keep-ca=false").certificates.keep_ca);
}

#[test]
fn the_domain_of_the_cluster_is_a_domain_and_reaches_the_configuration() {
    assert_eq!(flags("--cluster-domain=corp.example").config().cluster_domain, "corp.example");
    for bad in ["--cluster-domain=", "--cluster-domain=.cluster.local", "--cluster-domain=a..b"] {
        assert!(flags(bad).check().unwrap_err().to_string().contains("--cluster-domain"), "{bad}");
    }
}

#[test]
fn a_lease_must_leave_time_to_stop() {
    let error = flags("--lease-duration=10s --lease-renew-deadline=8s").check().unwrap_err();
    assert!(error.to_string().contains("at least 4s"), "{error}");
}

#[test]
fn a_rotation_must_fit_into_the_last_third_of_a_ca() {
    let error = flags("--ca-lifetime=30d --leaf-lifetime=30d").check().unwrap_err();
    assert!(error.to_string().contains("--leaf-lifetime"), "{error}");
    assert!(flags("--ca-lifetime=30d --leaf-lifetime=7d").check().is_ok());
}

#[test]
fn serving_names_are_host_names() {
    for bad in ["a_b", "-a", "a..b", "ü"] {
        assert!(flags(&format!("--serving-name={bad}")).check().is_err(), "{bad}");
    }
    assert!(flags("--serving-name=mcp,mcp.example.com").check().is_ok());
}

#[test]
fn urls_need_a_scheme_a_host_and_no_password() {
    for bad in ["coder.example.com", "ftp://a", "https://", "https://u:p@a"] {
        assert!(http_url(bad).is_err(), "{bad}");
    }
    assert_eq!(http_url("https://a/").unwrap(), "https://a");
}

#[test]
fn egress_is_read_from_flags_and_misuse_is_told_at_the_start() {
    let egress = flags("--resolve=*.svc=127.0.0.1:81 --resolve=a=::1 --allow-url=https://b").egress();
    assert_eq!(egress.resolve.lookup("c.svc", 80).unwrap().to_string(), "127.0.0.1:81");
    assert_eq!(egress.resolve.lookup("a", 80).unwrap().to_string(), "[::1]:80");
    assert!(egress.allowed_urls.allow("https://b/x") && !egress.allowed_urls.allow("https://c"));
    assert_eq!(egress.limits().total, Duration::from_secs(15));
    assert_eq!(flags("--coder-request-timeout=7s").egress().limits().total, Duration::from_secs(7));
    let denying = flags("--deny-cidr=10.0.0.0/8,fd12::/16 --deny-cidr=192.0.2.7").egress().resolve;
    let others = flags("").egress().resolve;
    assert_ne!(denying, others, "every --deny-cidr counts");
    for (word, reason) in [
        ("--resolve=a", "HOST[:PORT]=ADDR[:PORT]"),
        ("--allow-url=b", "http or https"),
        ("--deny-cidr=10.0.0.0/33", "such as 10.0.0.0/8"),
        ("--deny-cidr=10.1.2.3/8", "begins at 10.0.0.0"),
    ] {
        let error = Cli::try_parse_from(["coder-k8s", word]).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn the_token_shows_in_neither_debug_nor_help() {
    let flags = flags("--coder-session-token=hunter2");
    assert!(!format!("{flags:?}").contains("hunter2"));
}

#[test]
fn namespaces_are_watched_by_the_reconcilers_alone() {
    let two = flags("--app=controller --watch-namespace=a --watch-namespace=b,c");
    assert_eq!((two.check(), two.watch_namespace.len()), (Ok(Vec::new()), 3));
    assert_eq!(two.scope().places(), ["a", "b", "c"]);
    assert!(flags("").scope().is_cluster());
    for app in ["all", "webhooks", "aggregated-apiserver", "mcp-http"] {
        let error = flags(&format!("--app={app} --watch-namespace=a")).check().unwrap_err().to_string();
        assert!(error.contains(&format!("--app={app}")) && error.contains("--app=controller"), "{error}");
    }
    for bad in ["A", "a.b", "-a", "a/b"] {
        let error = flags(&format!("--app=controller --watch-namespace=x,{bad}")).check().unwrap_err();
        assert!(error.to_string().contains("not the name of a namespace"), "{error}");
    }
}
