// Package sqlite3 stands in for the real one, which needs C: Kubeflow Pipelines asks only whether an
// error is one of SQLite's, and here its database is MariaDB.
package sqlite3

// ErrConstraint is the code of a broken constraint.
const ErrConstraint = 19

// Error is an error of SQLite. Nobody makes one here.
type Error struct{ Code int }

func (e Error) Error() string { return "SQLite is not here" }
