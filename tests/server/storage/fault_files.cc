// SPDX-License-Identifier: Apache-2.0

#include "tests/server/storage/fault_files.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

// The folder of a path, "." for the root, and the name in it.
std::pair<std::string, std::string> Split(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

std::string Normal(const std::string& path) {
  return absl::StartsWith(path, "./") ? path.substr(2) : path;
}

}  // namespace

class FaultFiles::OpenFile final : public File {
 public:
  OpenFile(FaultFiles* files, std::shared_ptr<Content> content)
      : files_(files), content_(std::move(content)) {}

  absl::StatusOr<int64_t> ReadAt(int64_t offset,
                                 absl::Span<char> bytes) const override {
    const std::string& all = content_->bytes;
    if (offset >= static_cast<int64_t>(all.size())) return 0;
    const size_t count = std::min(bytes.size(), all.size() - offset);
    std::copy_n(all.begin() + offset, count, bytes.begin());
    return static_cast<int64_t>(count);
  }

  absl::Status WriteAt(int64_t offset, absl::string_view bytes) override {
    const absl::Status change = files_->Change();
    if (!change.ok()) {
      bytes = bytes.substr(
          0, RandomInt(0, static_cast<int64_t>(bytes.size()), files_->random_));
    }
    std::string& all = content_->bytes;
    all.resize(std::max(all.size(), offset + bytes.size()));
    std::copy(bytes.begin(), bytes.end(), all.begin() + offset);
    return change;
  }

  absl::StatusOr<int64_t> SizeBytes() const override {
    return static_cast<int64_t>(content_->bytes.size());
  }

  absl::Status Truncate(int64_t size_bytes) override {
    RETURN_IF_ERROR(files_->Change());
    content_->bytes.resize(size_bytes);
    return absl::OkStatus();
  }

  absl::Status Allocate(int64_t) override { return files_->Change(); }

  absl::Status Sync() override {
    const absl::Status change = files_->Change();
    if (change.ok()) {
      content_->on_disk = content_->bytes;
    } else {
      files_->WriteSomeSectors(content_.get());
    }
    return change;
  }

  const std::shared_ptr<Content>& content() const { return content_; }

 private:
  FaultFiles* const files_;
  const std::shared_ptr<Content> content_;
};

class FaultFiles::HeldLock final : public File {
 public:
  HeldLock(FaultFiles* files, std::string path)
      : files_(files), path_(std::move(path)) {}
  ~HeldLock() override { files_->locks_.erase(path_); }

  absl::StatusOr<int64_t> ReadAt(int64_t, absl::Span<char>) const override {
    return 0;
  }
  absl::Status WriteAt(int64_t, absl::string_view) override {
    return absl::OkStatus();
  }
  absl::StatusOr<int64_t> SizeBytes() const override { return 0; }
  absl::Status Truncate(int64_t) override { return absl::OkStatus(); }
  absl::Status Allocate(int64_t) override { return absl::OkStatus(); }
  absl::Status Sync() override { return absl::OkStatus(); }

 private:
  FaultFiles* const files_;
  const std::string path_;
};

absl::Status FaultFiles::Change() {
  ++changes_;
  if (error_.ok() || changes_left_-- > 0) return absl::OkStatus();
  return is_once_ ? std::exchange(error_, absl::OkStatus()) : error_;
}

void FaultFiles::WriteSomeSectors(Content* content) {
  const std::string& bytes = content->bytes;
  std::string& disk = content->on_disk;
  if (RandomInt(0, 1, random_) == 1) disk.resize(bytes.size());
  const size_t common = std::min(bytes.size(), disk.size());
  for (size_t begin = 0; begin < common; begin += kSectorBytes) {
    if (RandomInt(0, 1, random_) == 0) continue;
    const size_t count = std::min<size_t>(kSectorBytes, common - begin);
    disk.replace(begin, count, bytes, begin, count);
  }
}

void FaultFiles::Crash() {
  error_ = absl::OkStatus();
  std::set<std::string> paths;
  for (const auto& [path, unused] : names_) paths.insert(path);
  for (const auto& [path, unused] : names_on_disk_) paths.insert(path);
  Names left;
  std::set<Content*> contents;
  for (const std::string& path : paths) {
    const Names& source =
        RandomInt(0, 1, random_) == 1 ? names_ : names_on_disk_;
    const auto found = source.find(path);
    if (found == source.end()) continue;
    left[path] = found->second;
    contents.insert(found->second.get());
  }
  for (Content* const content : contents) {
    if (content->bytes != content->on_disk) WriteSomeSectors(content);
    content->bytes = content->on_disk;
  }
  names_ = left;
  names_on_disk_ = std::move(left);
}

std::string& FaultFiles::Bytes(const std::string& path) {
  const auto found = names_.find(path);
  CHECK(found != names_.end()) << path;
  return found->second->bytes;
}

absl::StatusOr<std::unique_ptr<File>> FaultFiles::OpenToRead(
    const std::string& path) {
  const auto found = names_.find(Normal(path));
  if (found == names_.end()) {
    return absl::NotFoundError(absl::StrCat("open ", path, ": no such file"));
  }
  return std::make_unique<OpenFile>(this, found->second);
}

absl::StatusOr<std::unique_ptr<File>> FaultFiles::OpenToWrite(
    const std::string& path) {
  std::shared_ptr<Content>& content = names_[Normal(path)];
  if (content == nullptr) content = std::make_shared<Content>();
  return std::make_unique<OpenFile>(this, content);
}

absl::StatusOr<std::unique_ptr<File>> FaultFiles::CreateUnnamed(
    const std::string& folder) {
  CHECK(folders_.count(folder) != 0) << folder;
  RETURN_IF_ERROR(Change());
  return std::make_unique<OpenFile>(this, std::make_shared<Content>());
}

absl::Status FaultFiles::Publish(File* unnamed, const std::string& path) {
  RETURN_IF_ERROR(Change());
  names_[Normal(path)] = static_cast<OpenFile*>(unnamed)->content();
  return absl::OkStatus();
}

absl::Status FaultFiles::Rename(const std::string& from,
                                const std::string& to) {
  RETURN_IF_ERROR(Change());
  const auto found = names_.find(Normal(from));
  if (found == names_.end()) return absl::NotFoundError(from);
  names_[Normal(to)] = found->second;
  names_.erase(found);
  return absl::OkStatus();
}

absl::Status FaultFiles::Remove(const std::string& path) {
  RETURN_IF_ERROR(Change());
  if (names_.erase(Normal(path)) == 0) return absl::NotFoundError(path);
  return absl::OkStatus();
}

absl::Status FaultFiles::MakeFolder(const std::string& path) {
  folders_.insert(path);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<FolderEntry>> FaultFiles::List(
    const std::string& folder) {
  std::vector<FolderEntry> entries;
  for (const auto& [path, content] : names_) {
    const auto [in, name] = Split(path);
    if (in == folder) {
      entries.push_back({name, static_cast<int64_t>(content->bytes.size())});
    }
  }
  return entries;
}

absl::Status FaultFiles::SyncFolder(const std::string& path) {
  RETURN_IF_ERROR(Change());
  for (auto name = names_on_disk_.begin(); name != names_on_disk_.end();) {
    name = Split(name->first).first == path ? names_on_disk_.erase(name)
                                            : std::next(name);
  }
  for (const auto& [name, content] : names_) {
    if (Split(name).first == path) names_on_disk_[name] = content;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<File>> FaultFiles::Lock(
    const std::string& path) {
  if (!locks_.insert(path).second) {
    return absl::UnavailableError("another process holds the lock");
  }
  return std::make_unique<HeldLock>(this, path);
}

}  // namespace qgemm
