//go:build tools

// Package tools keeps the two servers in go.mod; nothing else imports them.
package tools

import (
	_ "github.com/coder/coder/v2/cmd/coder"
	_ "github.com/coder/coder/v2/enterprise/cmd/coder"
)
