//go:build tools

// Package tools keeps kubeconform in go.mod; nothing else imports it.
package tools

import _ "github.com/yannh/kubeconform/cmd/kubeconform"
