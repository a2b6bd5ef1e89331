package bolt

import (
	"errors"
	"fmt"
	"slices"
)

// retire gives slots up. Their keys are replaced soon, and only then are they free.
func (k *keyring) retire(slots []uint32) {
	if len(slots) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.retired = append(k.retired, slots...)
	k.nudge()
}

// nudge wakes the shredder, which also tries again what failed.
func (k *keyring) nudge() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// run replaces the keys of retired slots, and adds slots when few are free, until
// the keyring is closed.
func (k *keyring) run() {
	defer close(k.stopped)
	for {
		select {
		case <-k.wake:
		case <-k.stop:
			return
		}
		err := k.shred()
		if k.freeSlots() <= fewSlots {
			err = errors.Join(err, k.grow())
		}
		if err != nil {
			k.logger.Error("keys of dropped parameters could not be replaced; they stay on disk", "error", err)
		}
		k.report(err)
	}
}

// shred puts a fresh key over that of each retired slot and frees the slots once all
// of that is on disk. On an error they stay retired.
func (k *keyring) shred() error {
	slots := k.takeRetired()
	if len(slots) == 0 {
		return nil
	}
	err := k.overwrite(slots)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		k.retired = append(k.retired, slots...)
		return fmt.Errorf("replace %d keys in %s: %w", len(slots), keyFile, err)
	}
	k.free = append(k.free, slots...)
	return nil
}

func (k *keyring) takeRetired() []uint32 {
	k.mu.Lock()
	defer k.mu.Unlock()
	slots := k.retired
	k.retired = nil
	return slots
}

// overwrite writes the keys of neighbours at once: after a start nearly all slots
// are neighbours.
func (k *keyring) overwrite(slots []uint32) error {
	slices.Sort(slots)
	for rest := slots; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n] == rest[0]+uint32(n) {
			n++
		}
		fresh, err := k.bytes(n * slotSize)
		if err != nil {
			return err
		}
		if _, err := k.file.WriteAt(fresh, slotOffset(rest[0])); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return syncFile(k.file)
}

// report keeps the last result for fault.
func (k *keyring) report(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shredErr = err
}

// fault returns why keys could not be replaced the last time, if so.
func (k *keyring) fault() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.shredErr
}

// close replaces what is left to replace and closes the file.
func (k *keyring) close() error {
	close(k.stop)
	<-k.stopped
	return errors.Join(k.shred(), k.file.Close())
}
