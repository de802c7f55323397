// SPDX-License-Identifier: Apache-2.0
//
// Tells when files have changed: certificates, tables of clients. What they
// hold and whether it is any good is the reader's to find out.

#ifndef QGEMM_BASE_FILE_WATCH_H_
#define QGEMM_BASE_FILE_WATCH_H_

#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"

namespace qgemm {

// Text that differs from an earlier one if a path leads to another file, or the
// file has been written since: its device, inode, size and times. Links are
// followed. A folder's has those of the files in it, not of folders below.
// Never fails: what is not there has a text too.
std::string FileState(const std::string& path);

// Decides when a change is over, so that files that are written one after the
// other, or in parts, are read once: when nothing has changed for `settle`, or
// 20 times that after the first change. Not thread-safe.
class ChangeSettler {
 public:
  ChangeSettler(std::string state, absl::Duration settle)
      : settle_(settle), told_(state), seen_(std::move(state)) {}

  // True if a change from the state that was told last is over: `state` counts
  // as told then. `now` must not fall.
  bool Look(std::string state, absl::Time now);

  // True between a change and its end: the next look is due after `settle`.
  bool is_waiting() const { return seen_ != told_; }
  absl::Duration settle() const { return settle_; }

 private:
  const absl::Duration settle_;
  std::string told_;
  std::string seen_;
  absl::Time changed_;  // the last time
  absl::Time began_;    // of the change that is not over
};

struct FileWatchOptions {
  absl::Duration settle = absl::Milliseconds(100);
  // Finds what inotify does not tell: changes on network file systems.
  absl::Duration poll_interval = absl::Seconds(10);
};

// Watches files and folders, by inotify on every folder that a name or a
// symbolic link on the way to them lies in, so that renames and swapped links
// are seen, and by a look at them every `poll_interval`. Files need not exist.
// Thread-safe; Stop and the destructor must not run on the watch's own thread.
class FileWatch {
 public:
  using Options = FileWatchOptions;

  // Changes count from here on: files that are read between construction and
  // Start are not missed when they change meanwhile.
  explicit FileWatch(std::vector<std::string> paths,
                     const Options& options = {});
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;
  ~FileWatch();

  // Runs `on_change` after each change, on a thread of the watch's own. Once.
  void Start(absl::AnyInvocable<void()> on_change);

  // Runs `on_change` once more after `poll_interval` at most, though nothing
  // may change until then. From within `on_change`.
  void TellAgain() { tells_again_ = true; }

  // Ends the thread; `on_change` does not run any more. Idempotent.
  void Stop();

 private:
  std::string State() const;
  void Run();
  // Waits until the next look is due; true if the end has come.
  bool EndedMeanwhile();
  // The folders on the way to what is watched, as it leads now.
  std::set<std::string> Folders() const;
  void WatchFolders();
  // False if nothing can tell of events.
  bool WatchOnly(std::set<std::string> folders);
  void ForgetEvents();

  const std::vector<std::string> paths_;
  const Options options_;
  const FileDescriptor end_;
  FileDescriptor events_;  // of inotify; not valid: there is none to be had
  std::set<std::string> folders_;  // that events are of
  ChangeSettler settler_;
  absl::AnyInvocable<void()> on_change_;
  bool tells_again_ = false;  // used by the thread alone
  std::thread thread_;
};

}  // namespace qgemm

#endif  // QGEMM_BASE_FILE_WATCH_H_
