// SPDX-License-Identifier: Apache-2.0
//
// CLI11 reports by exceptions; they end here, in Run.

#include "flags/command_line.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/version.h"

namespace qgemm::flags {
namespace {

struct Unit {
  const char* name;
  int64_t bytes;
};

// Binary units first: FormatBytes prefers them.
constexpr std::array<Unit, 9> kUnits = {{
    {"TiB", int64_t{1} << 40},
    {"GiB", int64_t{1} << 30},
    {"MiB", int64_t{1} << 20},
    {"KiB", int64_t{1} << 10},
    {"TB", 1'000'000'000'000},
    {"GB", 1'000'000'000},
    {"MB", 1'000'000},
    {"KB", 1'000},
    {"B", 1},
}};

int64_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<int64_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    int64_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const int64_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// The subcommand that was given, or the program.
const CLI::App& InnermostApp(const CLI::App& app) {
  const std::vector<CLI::App*> given = app.get_subcommands();
  return given.empty() ? app : InnermostApp(*given.back());
}

// The error of an argument that nothing takes.
std::string UnknownArgument(const CLI::App& app, const std::string& argument) {
  const CLI::App& innermost = InnermostApp(app);
  const std::vector<std::string> commands = internal::CommandNames(innermost);
  const std::string name = argument.substr(0, argument.find('='));
  if (absl::StartsWith(name, "-")) {
    return absl::StrCat(
        name, " is not an option",
        internal::Suggestion(name, internal::OptionNames(innermost)));
  }
  if (commands.empty()) {
    return absl::StrCat("\"", argument,
                        "\" is not expected; options are --name=value");
  }
  return absl::StrCat("\"", argument, "\" is not a command",
                      internal::Suggestion(argument, commands), "; there are ",
                      absl::StrJoin(commands, ", "));
}

std::string Message(const CLI::App& app, const CLI::Error& error) {
  const std::vector<std::string> remaining = app.remaining(true);
  if (!remaining.empty()) return UnknownArgument(app, remaining.front());
  return error.what();
}

// CLI11 takes the argument after "--name=" for its value; the value is empty.
std::vector<std::string> SplitEmptyValues(
    const std::vector<std::string>& arguments) {
  std::vector<std::string> split;
  for (const std::string& argument : arguments) {
    absl::string_view name = argument;
    if (absl::StartsWith(name, "--") && absl::ConsumeSuffix(&name, "=")) {
      split.emplace_back(name);
      split.emplace_back();
    } else {
      split.push_back(argument);
    }
  }
  return split;
}

// OK; INVALID_ARGUMENT with an error; CANCELLED with a text for stdout.
absl::Status Run(CLI::App* app, std::vector<std::string> arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--completion=bash") {
      return absl::CancelledError(internal::BashCompletion(*app));
    }
  }
  arguments = SplitEmptyValues(arguments);
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
  try {
    app->parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    return absl::CancelledError(app->help());
  } catch (const CLI::CallForVersion& version) {
    return absl::CancelledError(absl::StrCat(version.what(), "\n"));
  } catch (const CLI::Error& error) {
    return absl::InvalidArgumentError(Message(*app, error));
  }
  return absl::OkStatus();
}

// QGEMM_<NAME>, of the option --name.
std::string EnvironmentName(const std::string& name) {
  return absl::StrCat(
      "QGEMM_", absl::AsciiStrToUpper(absl::StrReplaceAll(name, {{"-", "_"}})));
}

}  // namespace

namespace internal {

std::string Suggestion(absl::string_view name,
                       const std::vector<std::string>& names) {
  const auto nearest = std::min_element(
      names.begin(), names.end(), [&](const auto& a, const auto& b) {
        return EditDistance(name, a) < EditDistance(name, b);
      });
  // Beyond a third of its letters a name is another word, not a slip.
  if (nearest == names.end() ||
      EditDistance(name, *nearest) * 3 > static_cast<int64_t>(name.size())) {
    return "";
  }
  return absl::StrCat("; did you mean ", *nearest, "?");
}

}  // namespace internal

std::unique_ptr<CLI::App> MakeApp(const std::string& description,
                                  const std::string& program_name) {
  auto app = std::make_unique<CLI::App>(description, program_name);
  app->get_formatter()->column_width(32);
  app->set_version_flag("--version", absl::StrCat(program_name, " ", kVersion),
                        "Prints the version");
  app->set_help_flag("-h,--help", "Prints this");
  app->set_config("--config", "",
                  "File with options as name = value (TOML or INI)");
  app->allow_config_extras(CLI::config_extras_mode::error);
  // For --help; Run reads it.
  app->add_option("--completion", "Prints a completion script for that shell")
      ->type_name("bash")
      ->configurable(false);
  return app;
}

absl::StatusOr<int64_t> ParseBytes(absl::string_view text) {
  const absl::Status wrong = absl::InvalidArgumentError(
      "is not a number of bytes; write 4096, 64MiB or 16GB");
  int64_t unit_bytes = 1;
  absl::string_view digits = text;
  for (const Unit& unit : kUnits) {
    if (absl::ConsumeSuffix(&digits, unit.name)) {
      unit_bytes = unit.bytes;
      break;
    }
  }
  int64_t whole = 0;
  if (absl::SimpleAtoi(digits, &whole)) {
    if (whole < 0) return wrong;
    if (whole > std::numeric_limits<int64_t>::max() / unit_bytes) {
      return absl::InvalidArgumentError("is more than 2^63 - 1 bytes");
    }
    return whole * unit_bytes;
  }
  double number = 0;
  if (digits.empty() || !absl::ascii_isdigit(digits[0]) ||
      !absl::SimpleAtod(digits, &number) || !std::isfinite(number)) {
    return wrong;
  }
  const double bytes = number * static_cast<double>(unit_bytes);
  if (bytes >= 0x1p63) {
    return absl::InvalidArgumentError("is more than 2^63 - 1 bytes");
  }
  return static_cast<int64_t>(std::llround(bytes));
}

std::string FormatBytes(int64_t bytes) {
  if (bytes == 0) return "0";
  std::string shortest = absl::StrCat(bytes);
  for (const Unit& unit : kUnits) {
    if (unit.bytes == 1 || bytes % unit.bytes != 0) continue;
    std::string text = absl::StrCat(bytes / unit.bytes, unit.name);
    if (text.size() < shortest.size()) shortest = std::move(text);
  }
  return shortest;
}

absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text) {
  absl::Duration duration;
  if (!absl::ParseDuration(std::string(text), &duration)) {
    return absl::InvalidArgumentError(
        "is not a duration; write a number with a unit, as 250ms, 2s or 1m");
  }
  if (duration < absl::ZeroDuration()) {
    return absl::InvalidArgumentError("is negative");
  }
  return duration;
}

CLI::Option* AddText(CLI::App* app, const std::string& name,
                     std::function<absl::Status(const std::string&)> read,
                     const std::string& help) {
  const auto take = [name, read = std::move(read)](const std::string& text) {
    const absl::Status status = read(text);
    if (status.ok()) return;
    throw CLI::ValidationError(
        absl::StrCat("--", name, " = ", text, " ", status.message()));
  };
  return app->add_option_function<std::string>("--" + name, take, help)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->envname(EnvironmentName(name));
}

CLI::Option* AddBytes(CLI::App* app, const std::string& name, int64_t* value,
                      const std::string& help) {
  const auto read = [value](const std::string& text) {
    const absl::StatusOr<int64_t> bytes = ParseBytes(text);
    if (bytes.ok()) *value = *bytes;
    return bytes.status();
  };
  return AddText(app, name, read, help)
      ->type_name("BYTES")
      ->default_str(FormatBytes(*value));
}

CLI::Option* AddDuration(CLI::App* app, const std::string& name,
                         absl::Duration* value, const std::string& help) {
  const auto read = [value](const std::string& text) {
    const absl::StatusOr<absl::Duration> duration = ParseDuration(text);
    if (duration.ok()) *value = *duration;
    return duration.status();
  };
  return AddText(app, name, read, help)
      ->type_name("DURATION")
      ->default_str(absl::FormatDuration(*value));
}

CLI::Option* AddSwitch(CLI::App* app, const std::string& name, bool* value,
                       const std::string& help) {
  return app->add_flag("--" + name, *value, help)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->default_str(*value ? "true" : "false")
      ->envname(EnvironmentName(name));
}

CLI::Option* AddOption(CLI::App* app, const std::string& name,
                       std::vector<std::string>* value,
                       const std::string& help) {
  const auto take = [value](const std::vector<std::string>& texts) {
    value->clear();
    for (const std::string& text : texts) {
      if (!text.empty()) value->push_back(text);
    }
  };
  return app
      ->add_option_function<std::vector<std::string>>("--" + name, take, help)
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("TEXT,...")
      ->default_str(absl::StrJoin(*value, ","))
      ->envname(EnvironmentName(name));
}

std::optional<int> Parse(CLI::App* app, int argc, const char* const* argv) {
  const absl::Status status =
      Run(app, std::vector<std::string>(argv + 1, argv + argc));
  if (status.ok()) return std::nullopt;
  if (absl::IsCancelled(status)) {
    std::cout << status.message() << std::flush;
    return 0;
  }
  std::cerr << app->get_name() << ": " << status.message() << "\nSee --help.\n";
  return 2;
}

absl::Status ParseArguments(CLI::App* app,
                            const std::vector<std::string>& arguments) {
  return Run(app, arguments);
}

std::string ChangedOptions(const CLI::App& app) {
  std::vector<std::string> changed;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    const std::string value = absl::StrJoin(option->reduced_results(), ",");
    if (value == option->get_default_str()) continue;
    changed.push_back(
        absl::StrCat("--", option->get_lnames().front(), "=", value));
  }
  return absl::StrJoin(changed, " ");
}

}  // namespace qgemm::flags
