package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

const (
	folderMode = 0o700
	fileMode   = 0o600
	// world are the rights of those who are neither the owner nor in the group. The
	// group's are left alone: Kubernetes gives a volume to a group (fsGroup).
	world = 0o007
)

// checkFolder makes the folder when it is not there, and looks at what lies in it before
// anything is opened. It changes nothing else.
func checkFolder(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return os.MkdirAll(dir, folderMode)
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &FolderError{What: "It is a file and no folder", Do: "Nothing was changed. Choose another folder"}
	}
	store, err := checkFile(dir, info, storeFile)
	if err != nil {
		return err
	}
	keys, err := checkFile(dir, info, keyFile)
	if err != nil {
		return err
	}
	if keys != nil && (store == nil || store.Size() == 0) {
		return keysAlone()
	}
	return nil
}

// checkFile returns nil for a file that is not there. A file that everybody may read, in
// a folder that everybody may enter, may have been read; one that everybody may write may
// hold anything.
func checkFile(dir string, folder fs.FileInfo, name string) (fs.FileInfo, error) {
	info, err := os.Stat(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, foreign(name + " is a folder or something else that is no file")
	}
	if runtime.GOOS != "windows" && info.Mode()&world != 0 && folder.Mode()&0o001 != 0 {
		return nil, &FolderError{
			What: fmt.Sprintf("Everybody on this machine may read or write %s (its mode is %04o, that of the folder %04o), "+
				"and what it protects are passwords", name, info.Mode().Perm(), folder.Mode().Perm()),
			Do: "Nothing was changed. Take these rights away (chmod -R o-rwx), and change the passwords in parameters of " +
				"operations that run, if somebody may have read them",
		}
	}
	return info, nil
}

// there reports whether something has this name.
func there(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
