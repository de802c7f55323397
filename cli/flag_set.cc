// SPDX-License-Identifier: Apache-2.0

#include "cli/flag_set.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace qgemm {

void FlagSet::Add(absl::string_view name, std::string* value,
                  absl::string_view help) {
  Flag flag{std::string(name), std::string(help), *value, false, {}, "text"};
  flag.set = [value](const std::string& text) {
    *value = text;
    return true;
  };
  flags_.push_back(std::move(flag));
}

void FlagSet::Add(absl::string_view name, int64_t* value,
                  absl::string_view help) {
  Flag flag{
      std::string(name), std::string(help), absl::StrCat(*value), false, {},
      "a whole number"};
  flag.set = [value](const std::string& text) {
    return absl::SimpleAtoi(text, value);
  };
  flags_.push_back(std::move(flag));
}

void FlagSet::Add(absl::string_view name, absl::Duration* value,
                  absl::string_view help) {
  Flag flag{std::string(name),
            std::string(help),
            absl::FormatDuration(*value),
            false,
            {},
            "a duration such as 30s or 500ms"};
  flag.set = [value](const std::string& text) {
    return absl::ParseDuration(text, value) && *value > absl::ZeroDuration();
  };
  flags_.push_back(std::move(flag));
}

void FlagSet::Add(absl::string_view name, bool* value, absl::string_view help) {
  Flag flag{std::string(name), std::string(help), "", true, {},
            "true or false"};
  flag.set = [value](const std::string& text) {
    *value = text == "true";
    return text == "true" || text == "false";
  };
  flags_.push_back(std::move(flag));
}

absl::StatusOr<std::vector<std::string>> FlagSet::Parse(
    const std::vector<std::string>& arguments) {
  std::vector<std::string> positional;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") {
      positional.insert(positional.end(), arguments.begin() + i + 1,
                        arguments.end());
      break;
    }
    if (argument.compare(0, 2, "--") != 0) {
      positional.push_back(argument);
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(2, equals - 2);
    const Flag* const flag = Find(name);
    if (flag == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("no flag --", name));
    }
    if (equals != std::string::npos) {
      RETURN_IF_ERROR(Set(*flag, argument.substr(equals + 1)));
    } else if (flag->is_switch) {
      RETURN_IF_ERROR(Set(*flag, "true"));
    } else if (i + 1 < arguments.size()) {
      RETURN_IF_ERROR(Set(*flag, arguments[++i]));
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("--", name, " needs a value"));
    }
  }
  return positional;
}

std::string FlagSet::Help() const {
  std::string text;
  for (const Flag& flag : flags_) {
    absl::StrAppend(&text, "  --", flag.name);
    if (!flag.is_switch && !flag.default_text.empty()) {
      absl::StrAppend(&text, "=", flag.default_text);
    }
    absl::StrAppend(&text, "\n        ", flag.help, "\n");
  }
  return text;
}

absl::Status FlagSet::Set(const Flag& flag, const std::string& text) {
  if (flag.set(text)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag.name, " is '", text, "'; it must be ", flag.expected));
}

const FlagSet::Flag* FlagSet::Find(absl::string_view name) const {
  for (const Flag& flag : flags_) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

}  // namespace qgemm
