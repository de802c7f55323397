// SPDX-License-Identifier: Apache-2.0
//
// Events only call for a look; what counts is whether the state differs.

#include "base/file_watch.h"

#include <dirent.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <deque>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"

namespace qgemm {
namespace {

constexpr int kLongestChange = 20;  // times the time to settle

// Links on the way to one file; the kernel follows as many (man 7
// path_resolution).
constexpr int kMaxLinks = 40;

constexpr uint32_t kEvents = IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM |
                             IN_DELETE | IN_CLOSE_WRITE | IN_ATTRIB |
                             IN_DELETE_SELF | IN_MOVE_SELF;

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

std::string TextOf(const struct stat& file) {
  return absl::StrCat(file.st_dev, ":", file.st_ino, ":", file.st_mode, ":",
                      file.st_size, ":", file.st_mtim.tv_sec, ".",
                      file.st_mtim.tv_nsec, ":", file.st_ctim.tv_sec, ".",
                      file.st_ctim.tv_nsec, ";");
}

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, CloseFolder> opened(opendir(folder.c_str()));
  if (opened == nullptr) return names;
  while (const dirent* const entry = readdir(opened.get())) {
    names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string TargetOf(const std::string& link) {
  std::array<char, PATH_MAX> target;
  const ssize_t length = readlink(link.c_str(), target.data(), target.size());
  return length < 0 ? "" : std::string(target.data(), length);
}

std::deque<std::string> PartsOf(const std::string& path) {
  return absl::StrSplit(path, '/', absl::SkipEmpty());
}

// Adds the folders in which the path's last name, and each link on the way to
// it, lies. Where a part is missing, the folder that it would be in is the
// last. A path that ends at a folder adds that too.
void AddFolders(const std::string& path, std::set<std::string>* folders) {
  std::deque<std::string> parts = PartsOf(path);
  std::string at = path[0] == '/' ? "/" : "./";
  for (int links = 0; !parts.empty();) {
    const std::string entry = at + parts.front();
    parts.pop_front();
    struct stat file;
    if (lstat(entry.c_str(), &file) != 0) {
      folders->insert(at);
      return;
    }
    if (S_ISLNK(file.st_mode)) {
      folders->insert(at);
      if (++links > kMaxLinks) return;
      const std::string target = TargetOf(entry);
      if (!target.empty() && target[0] == '/') at = "/";
      const std::deque<std::string> more = PartsOf(target);
      parts.insert(parts.begin(), more.begin(), more.end());
    } else if (S_ISDIR(file.st_mode)) {
      if (parts.empty()) folders->insert(at);
      at = entry + "/";
    } else {
      folders->insert(at);
      return;
    }
  }
  folders->insert(at);
}

}  // namespace

std::string FileState(const std::string& path) {
  struct stat file;
  if (stat(path.c_str(), &file) != 0) return absl::StrCat("-", errno, ";");
  std::string state = TextOf(file);
  if (!S_ISDIR(file.st_mode)) return state;
  for (const std::string& name : NamesIn(path)) {
    const std::string entry = absl::StrCat(path, "/", name);
    if (stat(entry.c_str(), &file) != 0 || S_ISDIR(file.st_mode)) continue;
    absl::StrAppend(&state, name, "=", TextOf(file));
  }
  return state;
}

bool ChangeSettler::Look(std::string state, absl::Time now) {
  if (state != seen_) {
    if (!is_waiting()) began_ = now;
    changed_ = now;
    seen_ = std::move(state);
  }
  if (!is_waiting()) return false;
  if (now - changed_ < settle_ && now - began_ < kLongestChange * settle_) {
    return false;
  }
  told_ = seen_;
  return true;
}

FileWatch::FileWatch(std::vector<std::string> paths, const Options& options)
    : paths_(std::move(paths)),
      options_(options),
      end_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      settler_(State(), options.settle) {
  CHECK(end_.valid()) << "eventfd: " << std::strerror(errno);
}

FileWatch::~FileWatch() { Stop(); }

void FileWatch::Start(absl::AnyInvocable<void()> on_change) {
  on_change_ = std::move(on_change);
  thread_ = std::thread([this] { Run(); });
}

void FileWatch::Stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  CHECK_EQ(write(end_.get(), &one, sizeof(one)), sizeof(one));
  thread_.join();
}

std::string FileWatch::State() const {
  std::string state;
  for (const std::string& path : paths_) {
    absl::StrAppend(&state, FileState(path), "\n");
  }
  return state;
}

// Folders are watched before the look, so that no change falls between.
void FileWatch::Run() {
  const SteadyClock clock;
  do {
    WatchFolders();
    const bool again = std::exchange(tells_again_, false);
    if (settler_.Look(State(), clock.Now()) || again) on_change_();
  } while (!EndedMeanwhile());
}

// Events of a busy folder call for a look each `settle` at most.
bool FileWatch::EndedMeanwhile() {
  const auto wait = [&](nfds_t count, absl::Duration timeout) {
    std::array<pollfd, 2> waited = {
        {{end_.get(), POLLIN, 0}, {events_.get(), POLLIN, 0}}};
    const timespec limit = absl::ToTimespec(timeout);
    ppoll(waited.data(), count, &limit, nullptr);
    return waited[0].revents != 0;
  };
  if (!settler_.is_waiting() && wait(2, options_.poll_interval)) return true;
  return wait(1, options_.settle);
}

std::set<std::string> FileWatch::Folders() const {
  std::set<std::string> folders;
  for (const std::string& path : paths_) AddFolders(path, &folders);
  return folders;
}

// Until the way is the same after its folders are watched: a folder made before
// tells no more of itself.
void FileWatch::WatchFolders() {
  std::set<std::string> folders = Folders();
  do {
    if (!WatchOnly(std::move(folders))) return;
    folders = Folders();
  } while (folders != folders_);
}

// A new instance forgets the folders that links do not lead to any more. It is
// made for that alone: closing the old one waits for the kernel's readers, some
// milliseconds at best, while changes go unseen. A folder of the same name may
// be another one now, so each is added again.
bool FileWatch::WatchOnly(std::set<std::string> folders) {
  if (!events_.valid() || folders != folders_) {
    events_.Reset(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    folders_ = std::move(folders);
  }
  if (!events_.valid()) {
    EVENT(WARNING, "file_watch_polls")
        .With("error", std::strerror(errno))
        .With("interval", options_.poll_interval);
    return false;
  }
  ForgetEvents();
  for (const std::string& folder : folders_) {
    // One that is gone is found again at the next look.
    inotify_add_watch(events_.get(), folder.c_str(), kEvents);
  }
  return true;
}

void FileWatch::ForgetEvents() {
  std::array<char, 4096> events;
  while (read(events_.get(), events.data(), events.size()) > 0) {
  }
}

}  // namespace qgemm
