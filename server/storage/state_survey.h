// SPDX-License-Identifier: Apache-2.0
//
// A state directory that no server has open, as an operator looks at it and
// cleans it.

#ifndef QGEMM_SERVER_STORAGE_STATE_SURVEY_H_
#define QGEMM_SERVER_STORAGE_STATE_SURVEY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/formats/weights_spec.h"
#include "server/storage/file_system.h"

namespace qgemm {

// A layer that a name or a client holds.
struct SurveyedLayer {
  std::string id;
  WeightsSpec spec;  // if its header is sound
  int64_t file_bytes = 0;
  std::vector<std::string> names;  // sorted
  // NOT_FOUND: it has no file; DATA_LOSS: its header or table is damaged.
  absl::Status state;
};

struct FileCount {
  int64_t files = 0;
  int64_t bytes = 0;
};

struct StateSurvey {
  std::vector<SurveyedLayer> layers;  // by id
  bool log_is_damaged = false;
  FileCount unheld;            // layers' files that nothing holds
  FileCount images;            // of layers, held or not
  FileCount uploads;           // that were not complete
  FileCount damaged;           // files that were set aside
  std::unique_ptr<File> lock;  // keeps servers out while this lives
};

// Looks at the directory and changes nothing in it. `files` is of its folder.
// Errors: FAILED_PRECONDITION (it is no state directory, or one of another
// version), UNAVAILABLE (a server has it open), FileSystem's.
absl::StatusOr<StateSurvey> SurveyState(FileSystem* files);

// Removes what nothing holds, uploads that were not complete, and, if asked,
// what was set aside; sets damaged files aside, as a server's start does.
// Errors: as above.
enum class SetAsideFiles : uint8_t { kKeep, kRemove };
absl::Status CleanState(FileSystem* files, SetAsideFiles set_aside);

}  // namespace qgemm

#endif  // QGEMM_SERVER_STORAGE_STATE_SURVEY_H_
