// SPDX-License-Identifier: Apache-2.0
//
// One style of command line for all programs, over CLI11: `--name=value`, sizes
// as 16GB, durations as 250ms, a config file, environment variables,
// suggestions for misspelt names, completion for bash.

#ifndef QGEMM_FLAGS_COMMAND_LINE_H_
#define QGEMM_FLAGS_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace qgemm::flags {

// An application with --help, --version, --config=FILE (TOML or INI) and
// --completion=bash. What is on the command line wins over the config file,
// and the file over the environment.
std::unique_ptr<CLI::App> MakeApp(const std::string& description,
                                  const std::string& program_name);

// "16GB" (powers of 1000), "64MiB" (powers of 1024), "4096" or "4096B".
// INVALID_ARGUMENT if it is none of these or above 2^63 - 1 bytes.
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);
// The shortest text that ParseBytes reads as `bytes`.
std::string FormatBytes(int64_t bytes);

// "250ms", "2s", "1h30m", "inf", "0". INVALID_ARGUMENT if it is none of these
// or negative.
absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text);

// The functions below add the option --`name` to `app` (which may be a
// subcommand). *value is the default that --help shows; it must outlive the
// parsing, which overwrites it. Given several times, the last one counts.
// Unless the option is on the command line or in the config file, the
// environment variable QGEMM_<NAME> sets it.

// An option whose text `read` takes; an error refuses the command line.
CLI::Option* AddText(CLI::App* app, const std::string& name,
                     std::function<absl::Status(const std::string&)> read,
                     const std::string& help);

CLI::Option* AddBytes(CLI::App* app, const std::string& name, int64_t* value,
                      const std::string& help);

CLI::Option* AddDuration(CLI::App* app, const std::string& name,
                         absl::Duration* value, const std::string& help);

// --name, --name=true or --name=false.
CLI::Option* AddSwitch(CLI::App* app, const std::string& name, bool* value,
                       const std::string& help);

// Values between commas, or the option several times; replaces the default.
CLI::Option* AddOption(CLI::App* app, const std::string& name,
                       std::vector<std::string>* value,
                       const std::string& help);

// A whole number, a finite number, or any text.
template <typename T>
CLI::Option* AddOption(CLI::App* app, const std::string& name, T* value,
                       const std::string& help);
// The same without a default.
template <typename T>
CLI::Option* AddOption(CLI::App* app, const std::string& name,
                       std::optional<T>* value, const std::string& help);

// One of `choices`, by its name.
template <typename Enum>
CLI::Option* AddChoice(CLI::App* app, const std::string& name, Enum* value,
                       std::vector<std::pair<std::string, Enum>> choices,
                       const std::string& help);

// Parses. nullopt: the program goes on. Otherwise its exit code: 0 after
// --help, --version or --completion, whose text went to stdout; 2 after a wrong
// command line, whose error went to stderr.
std::optional<int> Parse(CLI::App* app, int argc, const char* const* argv);

// The same without output, of the arguments after the program's name.
// INVALID_ARGUMENT with the error; CANCELLED with the text of --help and so on.
absl::Status ParseArguments(CLI::App* app,
                            const std::vector<std::string>& arguments);

// The options that were given values other than their defaults, wherever from,
// as "--rows=9 --listen=a,b": for a program's log. After parsing.
std::string ChangedOptions(const CLI::App& app);

namespace internal {

// "; did you mean ...?" with the nearest of `names`, or nothing.
std::string Suggestion(absl::string_view name,
                       const std::vector<std::string>& names);

// The options that may follow: a command that falls through to the program, or
// to the command that it belongs to, takes those options too.
std::vector<std::string> OptionNames(const CLI::App& app);

std::vector<std::string> CommandNames(const CLI::App& app);

// The script by which bash completes a program's commands, which may have
// commands of their own, options and choices (bash_completion.cc).
std::string BashCompletion(const CLI::App& app);

template <typename T>
absl::Status ReadValue(const std::string& text, T* value) {
  if constexpr (std::is_same_v<T, std::string>) {
    *value = text;
  } else if constexpr (std::is_integral_v<T>) {
    static_assert(!std::is_same_v<T, bool>, "AddSwitch takes a bool");
    if (!absl::SimpleAtoi(text, value)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "is not a whole number from ", std::numeric_limits<T>::min(), " to ",
          std::numeric_limits<T>::max()));
    }
  } else {
    double number = 0;
    if (!absl::SimpleAtod(text, &number) || number - number != 0) {
      return absl::InvalidArgumentError("is not a finite number");
    }
    *value = static_cast<T>(number);
  }
  return absl::OkStatus();
}

template <typename T>
const char* TypeName() {
  if constexpr (std::is_same_v<T, std::string>) {
    return "TEXT";
  } else {
    return std::is_integral_v<T> ? "INT" : "NUMBER";
  }
}

}  // namespace internal

template <typename T>
CLI::Option* AddOption(CLI::App* app, const std::string& name, T* value,
                       const std::string& help) {
  return AddText(
             app, name,
             [value](const std::string& text) {
               return internal::ReadValue(text, value);
             },
             help)
      ->type_name(internal::TypeName<T>())
      ->default_str(absl::StrCat(*value));
}

template <typename T>
CLI::Option* AddOption(CLI::App* app, const std::string& name,
                       std::optional<T>* value, const std::string& help) {
  return AddText(
             app, name,
             [value](const std::string& text) {
               return internal::ReadValue(text, &value->emplace());
             },
             help)
      ->type_name(internal::TypeName<T>());
}

template <typename Enum>
CLI::Option* AddChoice(CLI::App* app, const std::string& name, Enum* value,
                       std::vector<std::pair<std::string, Enum>> choices,
                       const std::string& help) {
  std::string default_name;
  std::string alternatives;
  std::vector<std::string> names;
  for (const auto& [choice, meaning] : choices) {
    if (meaning == *value) default_name = choice;
    absl::StrAppend(&alternatives, names.empty() ? "" : "|", choice);
    names.push_back(choice);
  }
  const auto read = [value, names, choices = std::move(choices),
                     alternatives](const std::string& text) {
    for (const auto& [choice, meaning] : choices) {
      if (choice != text) continue;
      *value = meaning;
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "is not one of ", alternatives, internal::Suggestion(text, names)));
  };
  return AddText(app, name, read, help)
      ->type_name(alternatives)
      ->default_str(default_name);
}

}  // namespace qgemm::flags

#endif  // QGEMM_FLAGS_COMMAND_LINE_H_
