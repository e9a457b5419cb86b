-- kstatus: Stalled is final until somebody acts, Reconciling and an older generation are under way.
if obj.spec ~= nil and obj.spec.suspend == true then
  return { status = "Suspended", message = "spec.suspend is true" }
end
local waiting = { status = "Progressing", message = "waiting for the operator" }
if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return waiting
end
local found = {}
for _, condition in ipairs(obj.status.conditions or {}) do
  found[condition.type] = condition
end
local stalled, reconciling, ready = found.Stalled, found.Reconciling, found.Ready
if stalled ~= nil and stalled.status == "True" then
  return { status = "Degraded", message = (stalled.reason or "Stalled") .. ": " .. (stalled.message or "") }
end
if reconciling ~= nil and reconciling.status == "True" then
  return { status = "Progressing", message = reconciling.message or "" }
end
if ready == nil then
  return waiting
end
if ready.status == "True" then
  return { status = "Healthy", message = ready.message or "" }
end
return { status = "Progressing", message = ready.message or "" }
