//! The properties that are built in: claims about all policies together, as Cedar.

/// They are proved besides those that somebody writes.
pub const PROPERTIES: &str = r#"// What holds of every call under the default policies, and should under yours. Each is a claim about
// all policies together: a `forbid` says what is denied, even if a person would say yes.

@id("read-inside")
@reason("what is read is in the workspace, or is labelled as a place to read")
forbid(principal, action == Bridge::Action::"read", resource is Bridge::Path)
unless {
  resource.inside ||
  resource.labels.containsAny([
    "root_read", "root_write", "system", "toolchain", "temp", "session", "guard", "sink"
  ])
};

@id("write-inside")
@reason("what is written is in the workspace, or is labelled as a place to write")
forbid(principal, action == Bridge::Action::"write", resource is Bridge::Path)
unless {
  resource.inside || resource.labels.containsAny(["root_write", "temp", "session", "sink"])
};

@id("guard")
@reason("what protects the bridge is not changed")
forbid(principal, action, resource)
when {
  (action == Bridge::Action::"write" && resource is Bridge::Path && resource.labels.contains("guard")) ||
  (resource is Bridge::Command && resource.labels.contains("guard"))
};

@id("credentials")
@reason("credentials are neither read nor written")
forbid(principal, action, resource is Bridge::Path)
when { resource.labels.contains("credentials") };

@id("fault")
@reason("a path or an address that cannot be resolved is denied")
forbid(principal, action, resource)
when {
  (resource is Bridge::Path && resource.fault != "") ||
  (resource is Bridge::Url && resource.fault != "")
};

@id("depth")
@reason("an agent at the limit of the depth uses no tool, starts no agent and calls no model")
forbid(principal, action, resource)
when {
  context.depth >= context.depth_limit &&
  (action in Bridge::Action::"tool_use" ||
   [Bridge::Action::"delegate", Bridge::Action::"model_call"].contains(action))
};
"#;
