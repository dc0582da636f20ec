package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"pdrouter/keys"
)

func (in *intake) keySettings() []setting {
	c := &in.cfg
	return []setting{
		{name: "api-key", value: newKeys(&in.apiKeys, nil), takes: takesOne, secret: true, usage: "bearer key of which a client must send one; repeat for several; none: anybody may ask"},
		{name: "api-key-file", value: newText(&c.APIKeyFile, "file"), usage: "file with such keys, one per line, each as KEY, NAME:KEY or NAME=KEY; the log names who asked; a systemd credential by its name"},
		{name: "tenant-api-key", value: newTenantKeys(&in.tenantKeys), takes: takesOne, secret: true, usage: "smg's TENANT:KEY, which counts like --api-key; the name is for the log"},
		{name: "worker-api-key", value: newSecret(&in.workerKey), secret: true, usage: "bearer key sent to the workers; one of its own may be given to each in the file"},
		{name: "worker-api-key-file", value: newText(&c.WorkerKeyFile, "file"), usage: "file with that key, in place of it"},
	}
}

// readKeys brings the keys that flags and files give into the Config. It reads
// the files.
func (in *intake) readKeys() {
	c := &in.cfg
	c.Router.APIKeys = slices.Concat(in.apiKeys, in.tenantKeys, in.keysOf("api-key-file", c.APIKeyFile))
	c.AdminKeys = slices.Concat(in.adminKeys, in.keysOf("admin-api-key-file", c.AdminKeyFile))
	c.Workers.APIKey = in.workerKey
	if c.WorkerKeyFile == "" {
		return
	}
	if in.workerKey != "" {
		in.faults = append(in.faults, errors.New("worker-api-key-file: --worker-api-key is given too, and one key is sent"))
	}
	key, err := keyOf("worker-api-key-file", c.WorkerKeyFile)
	if err != nil {
		in.faults = append(in.faults, err)
	}
	in.warnOfReaders("worker-api-key-file", c.WorkerKeyFile)
	in.inFiles["worker-api-key-file"] = keys.Of(key)
	c.Workers.APIKey = key
}

// keysOf returns the keys in the file that a setting names, if it names one.
func (in *intake) keysOf(setting, path string) keys.Set {
	if path == "" {
		return nil
	}
	text, err := readNamed(setting, path)
	if err != nil {
		in.faults = append(in.faults, err)
		return nil
	}
	set, err := keys.Parse(text)
	for _, line := range faultLines(err) {
		in.faults = append(in.faults, fmt.Errorf("%s: %q %s", setting, path, line))
	}
	in.warnOfReaders(setting, path)
	in.inFiles[setting] = set
	return set
}

// keyOf returns the one key in the file that a setting names.
func keyOf(setting, path string) (string, error) {
	text, err := readNamed(setting, path)
	if err != nil {
		return "", err
	}
	key, err := keys.ParseOne(text)
	if err != nil {
		return "", fmt.Errorf("%s: %q %w", setting, path, err)
	}
	return key, nil
}

// warnOfReaders warns of a file with keys that every user of this host can read.
// It is no fault, because in containers secrets often have such a mode.
func (in *intake) warnOfReaders(setting, path string) {
	const others = 0o004
	info, err := os.Stat(placeOf(path))
	if err == nil && info.Mode().Perm()&others != 0 {
		in.warnings = append(in.warnings, warning{setting, fmt.Sprintf("every user of this host can read %s (mode %#o); chmod o-r, or hand it over by LoadCredential=", path, info.Mode().Perm())})
	}
}

// placeOf returns where a file is that a setting names: a relative path is that
// of a credential from the service manager (LoadCredential=), if there is one of
// that name.
func placeOf(path string) string {
	credentials := os.Getenv("CREDENTIALS_DIRECTORY") //nolint:forbidigo // this is how systemd says where they are
	if credentials == "" || !filepath.IsLocal(path) {
		return path
	}
	given := filepath.Join(credentials, path)
	if _, err := os.Stat(given); err != nil {
		return path
	}
	return given
}

// readNamed reads the file that a setting names.
func readNamed(setting, path string) ([]byte, error) {
	text, err := os.ReadFile(placeOf(path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	return text, nil
}
